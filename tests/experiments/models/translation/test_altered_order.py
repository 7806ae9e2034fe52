import torch

from exactformer.experiments.models.translation.altered_order import first_to_end
from exactformer.experiments.models.translation.recurrent import without_padding
from exactformer.experiments.models.translation.subwords import PAD


def test_the_first_ten_come_last_and_the_rest_keeps_its_order():
    order = first_to_end(16, 10).tolist()
    assert order == [10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_padding_moves_along_and_a_short_sentence_goes_to_the_end_as_a_whole():
    ids = torch.tensor([[3, 4, 5, 6, PAD, PAD], [7, PAD, PAD, PAD, PAD, PAD]])
    assert ids[:, first_to_end(6, 2)].tolist() == [
        [5, 6, PAD, PAD, 3, 4],
        [PAD, PAD, PAD, PAD, 7, PAD],
    ]


def test_an_lstm_reads_the_altered_order_without_its_padding():
    ids = torch.tensor([[5, 6, PAD, PAD, 3, 4], [PAD, PAD, PAD, PAD, 7, PAD]])
    rows, lengths = without_padding(ids)
    assert rows.tolist() == [[5, 6, 3, 4, PAD, PAD], [7, PAD, PAD, PAD, PAD, PAD]]
    assert lengths.tolist() == [4, 1]
