"""What is read off a result: statistics, the accessor `ds.warpsim`, plots."""
