"""The figures of the papers and of what the package makes of them: numbers, charts, a page. Shell."""
