"""A readable replica of the reference simulator that the original experiments ran on."""
