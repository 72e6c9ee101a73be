"""The rules, one module each; the folder's listing is the table (`hazard.rule.rule_files`)."""
