"""The paper's tables and figures: what was published beside what is counted or measured here."""
