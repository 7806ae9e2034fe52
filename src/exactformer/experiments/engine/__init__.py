"""The machinery behind every experiment.

From the grid to the page, one file per step::

    experiment   grid, rows and statements of an experiment
    cell         a task and its metrics, as plain JSON
    code_version which code computed a cell
    store        finished cells on disk
    work         running one cell
    runner       running many: in this process, in local processes, on a Dask cluster
    summary      cells -> a frame, and rows over seeds (verdict: against what is known)
    provenance   where a result comes from
    result       the result, saved and read back (figure: its default drawing)
    stored       a folder of results, as the ledger of claims reads it
    drift        a new run against the stored one
    presentation a result in words and numbers, for every page (numbers: their format)
    report       all results on one page
    reproduce    all of the above in order
"""
