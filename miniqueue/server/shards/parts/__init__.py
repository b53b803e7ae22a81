"""What both protocols do alike with the parts of a spread topic: in which order they are asked, and what each is asked.

Knows neither commands nor requests, and not which shard has a part: `resp/parts` and `http/parts` bring functions that
ask a part, and that tell what it has answered.
"""
