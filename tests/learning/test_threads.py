from exactformer.learning import threads


class Limit:
    """What threadpoolctl does: a limit remembers the setting that it finds."""

    def __init__(self, setting):
        self.setting, self.found = setting, setting["threads"]
        setting["threads"] = 1

    def restore_original_limits(self):
        self.setting["threads"] = self.found


class Controller:
    def __init__(self, setting):
        self.setting = setting

    def limit(self, limits, user_api):
        assert (limits, user_api) == (1, "blas")
        return Limit(self.setting)


def test_after_work_that_overlaps_the_number_of_threads_is_as_before(monkeypatch):
    setting = {"threads": 8}
    monkeypatch.setattr(threads, "_controller", lambda: Controller(setting))
    first, second = threads.one_blas_thread(), threads.one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert setting["threads"] == 1
    second.__exit__(None, None, None)
    assert setting["threads"] == 8


def test_many_terms_keep_all_threads(monkeypatch):
    setting = {"threads": 8}
    monkeypatch.setattr(threads, "_controller", lambda: Controller(setting))
    with threads.one_blas_thread(10**6):
        assert setting["threads"] == 8
