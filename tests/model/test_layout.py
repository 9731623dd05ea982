"""A ragged batch without its padding and back; buckets that hold every sequence once and waste little."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from transalg.model import layout as module
from transalg.model.layout import layout, paired

CPU = torch.device("cpu")
lengths = st.lists(st.integers(1, 23), min_size=1, max_size=9)


@given(lengths=lengths, wider=st.integers(0, 3))
def test_padding_undoes_unpadding(lengths: list[int], wider: int) -> None:
    B, ell = len(lengths), max(lengths) + wider
    ids = torch.arange(1, B * ell + 1).view(B, ell)
    where = layout((B, ell), lengths, CPU)
    tokens = where.unpad(ids)
    assert len(tokens) == sum(lengths)
    token_mask = torch.arange(ell) < torch.tensor(lengths)[:, None]
    assert where.pad(tokens).equal(ids * token_mask)
    assert tokens[where.first_tokens].equal(ids[:, 0])
    positions = where.positions(CPU)
    if positions is not None:
        assert where.pad(positions).equal(torch.arange(ell).expand(B, ell) * token_mask)


@given(lengths=lengths)
def test_buckets_give_back_what_they_take(lengths: list[int]) -> None:
    where = layout((len(lengths), max(lengths) + 1), lengths, CPU)
    X = torch.randn(sum(lengths), 3, 2)
    pieces = X.split([bucket.queries.count for bucket in where.buckets])
    assert torch.cat(
        [bucket.queries.to_tokens(bucket.queries.to_sequences(piece)) for bucket, piece in zip(where.buckets, pieces, strict=True)]
    ).equal(X)


@given(lengths=lengths)
def test_a_sequence_lies_whole_in_a_bucket(lengths: list[int]) -> None:
    """What `to_sequences` gives has a sequence a row, in order, and the token mask says where it ends."""
    where = layout((len(lengths), max(lengths) + 1), lengths, CPU)
    owner = torch.cat([torch.full((length,), i) for i, length in enumerate(where.lengths)]).double()[:, None]
    seen = []
    for bucket, piece in zip(where.buckets, owner.split([bucket.queries.count for bucket in where.buckets]), strict=True):
        taken = bucket.queries.to_sequences(piece)[..., 0]
        for i, row in enumerate(taken):
            tokens = row if bucket.queries.token_mask is None else row[bucket.queries.token_mask[i]]
            assert len(set(tokens.tolist())) == 1
            seen.append((int(tokens[0]), len(tokens)))
    assert seen == list(enumerate(where.lengths))


@given(data=st.data())
def test_pairs_stay_pairs(data: st.DataObject) -> None:
    z_lengths = data.draw(lengths)
    x_lengths = data.draw(st.lists(st.integers(1, 23), min_size=len(z_lengths), max_size=len(z_lengths)))
    B = len(z_lengths)
    z, x, buckets = paired((B, 23), z_lengths, (B, 24), x_lengths, CPU)
    owners = [where.unpad(torch.arange(B)[:, None].expand(where.shape)) for where in (z, x)]
    for side, owner in (("keys", owners[0]), ("queries", owners[1])):
        assert sum(getattr(bucket, side).count for bucket in buckets) == len(owner)
    of_z = owners[0].double()[:, None].split([bucket.keys.count for bucket in buckets])
    of_x = owners[1].double()[:, None].split([bucket.queries.count for bucket in buckets])
    for bucket, keys, queries in zip(buckets, of_z, of_x, strict=True):
        assert bucket.keys.to_sequences(keys)[:, 0].equal(bucket.queries.to_sequences(queries)[:, 0])


@given(lengths=st.lists(st.integers(1, 512), min_size=1, max_size=64))
def test_padding_adds_less_than_the_calls_it_saves(lengths: list[int]) -> None:
    where = layout((len(lengths), 513), lengths, CPU)
    real = sum(length**2 for length in lengths)
    padded = sum(bucket.queries.shape[0] * bucket.queries.shape[1] ** 2 for bucket in where.buckets)
    assert padded <= real + module.KERNEL_CALL_COST * (len(lengths) - len(where.buckets))
    assert sum(bucket.queries.shape[0] for bucket in where.buckets) == len(lengths)


def test_a_full_batch_stays_as_it_is() -> None:
    assert layout((3, 5), [5, 5, 5], CPU) == layout((3, 5), None, CPU)
    assert layout((3, 5), None, CPU).token_index is None
