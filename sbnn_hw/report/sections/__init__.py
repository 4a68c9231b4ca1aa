"""The sections of the page, in their order. What is not known is said to be so."""

from sbnn_hw.report.sections.build import steps, tools
from sbnn_hw.report.sections.energy import energy
from sbnn_hw.report.sections.network import fan_in, kernels, operations
from sbnn_hw.report.sections.pipeline import pipeline
from sbnn_hw.report.sections.plan import plan
from sbnn_hw.report.sections.summary import heading, summary
from sbnn_hw.report.sections.terms import terms
from sbnn_hw.report.sections.timing import timing
from sbnn_hw.report.sections.utilisation import utilisation
from sbnn_hw.report.sections.verification import accuracy, agreement

__all__ = ["SECTIONS", "heading"]

SECTIONS = (
    summary,
    pipeline,
    plan,
    utilisation,
    timing,
    energy,
    operations,
    fan_in,
    kernels,
    agreement,
    accuracy,
    steps,
    tools,
    terms,
)
