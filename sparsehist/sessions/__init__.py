"""Objects that draw by themselves and remember what they drew: clients, networks, watched queries. Shell."""
