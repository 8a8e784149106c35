"""Pages and tables to read a run by: `report.write_report`, `trace.write_trace_page`, `console.print_summary`."""
