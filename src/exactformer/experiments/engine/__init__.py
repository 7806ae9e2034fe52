"""The machinery behind every experiment.

From the grid to the page, one file per step::

    experiment   what an experiment is
    cell         a task and what came of it, as plain JSON
    code_version which code computed a cell
    store        finished cells on disk
    work         running one cell
    runner       running many: this process, local processes (cluster: Dask)
    progress     how far it is
    summary      cells -> rows over seeds (verdict: against published values)
    provenance   where a result comes from
    result       the result, saved and read back (figure: its picture)
    drift        a new run against the stored one
    presentation a result in words and numbers, for every page (numbers: their format)
    report       all results on one page
    reproduce    all of the above in order
"""
