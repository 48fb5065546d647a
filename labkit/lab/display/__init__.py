"""What a learner sees: the output of ranks, while a cell runs and after it, tables and tiles.

said          what the ranks said in a cell, as text
redrawn       what is left of it where a rank has cleared or updated some
rich          more than text: HTML, Markdown, pictures
tabs          all of it as HTML, a tab per rank
long_output   long output, shortened for the page and kept in a file
live          a cell while it runs
tables        rows as aligned text, and the table of ranks
comparison    a comparison of ranks as text and as HTML
view          a tile per rank, `lab.view()`
steps         a cell step by step, `lab.last.history`
widget/       the widgets behind these two
"""
