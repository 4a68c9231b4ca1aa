"""The report of a build: what it holds, and one page that shows it."""

from sbnn_hw.report.page import render
from sbnn_hw.report.schema import SCHEMA, Report

__all__ = ["SCHEMA", "Report", "render"]
