"""A ragged batch packed into a matrix and back; buckets that hold every sequence once and waste little."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from transalg.model import layout as module
from transalg.model.layout import paired, rows

CPU = torch.device("cpu")
lengths = st.lists(st.integers(1, 23), min_size=1, max_size=9)


@given(lengths=lengths, wider=st.integers(0, 3))
def test_unpacking_undoes_packing(lengths: list[int], wider: int) -> None:
    B, ell = len(lengths), max(lengths) + wider
    ids = torch.arange(1, B * ell + 1).view(B, ell)
    where = rows((B, ell), lengths, CPU)
    packed = where.unpad(ids)
    assert len(packed) == sum(lengths)
    there = torch.arange(ell) < torch.tensor(lengths)[:, None]
    assert where.pad(packed).equal(ids * there)
    assert packed[where.first_tokens].equal(ids[:, 0])
    positions = where.positions(CPU)
    if positions is not None:
        assert where.pad(positions).equal(torch.arange(ell).expand(B, ell) * there)


@given(lengths=lengths)
def test_buckets_give_back_what_they_take(lengths: list[int]) -> None:
    where = rows((len(lengths), max(lengths) + 1), lengths, CPU)
    X = torch.randn(sum(lengths), 3, 2)
    pieces = X.split([bucket.queries.count for bucket in where.buckets])
    assert torch.cat([bucket.queries.give(bucket.queries.take(piece)) for bucket, piece in zip(where.buckets, pieces, strict=True)]).equal(
        X
    )


@given(lengths=lengths)
def test_a_sequence_lies_whole_in_a_bucket(lengths: list[int]) -> None:
    """What take gives has a sequence a row, in order, and `there` says where it ends."""
    where = rows((len(lengths), max(lengths) + 1), lengths, CPU)
    owner = torch.cat([torch.full((length,), i) for i, length in enumerate(where.lengths)]).double()[:, None]
    seen = []
    for bucket, piece in zip(where.buckets, owner.split([bucket.queries.count for bucket in where.buckets]), strict=True):
        taken = bucket.queries.take(piece)[..., 0]
        for i, row in enumerate(taken):
            tokens = row if bucket.queries.there is None else row[bucket.queries.there[i]]
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
        assert bucket.keys.take(keys)[:, 0].equal(bucket.queries.take(queries)[:, 0])


@given(lengths=st.lists(st.integers(1, 512), min_size=1, max_size=64))
def test_padding_adds_less_than_the_calls_it_saves(lengths: list[int]) -> None:
    where = rows((len(lengths), 513), lengths, CPU)
    real = sum(length**2 for length in lengths)
    padded = sum(bucket.queries.shape[0] * bucket.queries.shape[1] ** 2 for bucket in where.buckets)
    assert padded <= real + module.KERNEL_CALL_COST * (len(lengths) - len(where.buckets))
    assert sum(bucket.queries.shape[0] for bucket in where.buckets) == len(lengths)


def test_a_full_batch_needs_no_packing() -> None:
    assert rows((3, 5), [5, 5, 5], CPU) == rows((3, 5), None, CPU)
    assert rows((3, 5), None, CPU).places is None
