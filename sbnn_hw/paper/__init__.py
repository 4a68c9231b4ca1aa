"""The paper's tables and figures: what was published next to what is counted or measured."""
