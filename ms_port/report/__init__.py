"""Reports: ``report.json`` first; CSV, HTML and terminal are views of it."""

from ms_port.report.report import Change, Coverage, Report, write_json_and_page, write_report
from ms_port.report.rules import Rule, rules
from ms_port.report.terminal import summary

__all__ = ["Change", "Coverage", "Report", "Rule", "rules", "summary", "write_json_and_page", "write_report"]
