"""The notebook's side: one running lab, one cell, one verdict, and what is shown of them."""
