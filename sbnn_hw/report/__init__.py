"""The report of a build: its form, and one page that shows it."""

from sbnn_hw.report.form import SCHEMA, check
from sbnn_hw.report.page import render

__all__ = ["SCHEMA", "check", "render"]
