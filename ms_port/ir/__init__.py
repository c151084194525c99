"""The intermediate representation: plain data about a traced program."""
