"""MySQL 9.7 as a source. No kind of source is made of it yet, because nothing sets up its connector: what stands is all
of `seamline.sources.mysql.source`, the records of its log (`seamline.sources.mysql.decode`), the scripts of
`seamline.sources.mysql.grants` and the values of `seamline.sources.mysql.edge_values`.
"""
