# SPDX-License-Identifier: MIT
"""Reads metrics with Prometheus' own parser, and holds them against what is documented."""
import pathlib
import re

from prometheus_client.parser import text_string_to_metric_families

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def documented():
    """Of each metric, as docs/metrics.md has it: its type, and what its labels can be."""
    metrics, values = {}, {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            labels = {name: None for name in re.findall(r"`(\w+)`", cells[2])}
            metrics[cells[0].strip("`")] = (cells[1], labels)
        elif len(cells) == 3 and cells[0].startswith("`"):
            if cells[2] != "the same":
                values = set(re.findall(r"`([^`]+)`", cells[2]))
            metrics[cells[0].strip("`")][1][cells[1].strip("`")] = values
    return metrics


def _check_sample(name, labels, expected):
    """No label but those of the page, and no value that is not there."""
    own = {key: value for key, value in labels.items() if key != "le"}
    assert set(own) == set(expected), (name, labels)
    for key, value in own.items():
        assert expected[key] is None or value in expected[key], (name, key, value)


def _check_histogram(name, samples):
    buckets = [(float(labels["le"]), value) for sample, labels, value in samples
               if sample == f"{name}_bucket"]
    count = [value for sample, _, value in samples if sample == f"{name}_count"]
    assert len([1 for sample, _, _ in samples if sample == f"{name}_sum"]) == 1
    assert buckets == sorted(buckets) and buckets[-1][0] == float("inf")
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert count == [buckets[-1][1]]


def check_metrics(text):
    """
    Fails unless `text` is a whole exposition of every documented metric and of no other, each
    sample once. Returns the samples: {name: value} and {(name, label, value…): value}.
    """
    pages, found, samples = documented(), set(), {}
    assert text.endswith("\n") and "\r" not in text
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        assert name in pages, f"{name} is not documented"
        kind, labels = pages[name]
        assert family.type == kind and family.documentation, name
        assert name not in found, f"{name} comes twice"
        found.add(name)
        rows = [(sample.name, sample.labels, sample.value) for sample in family.samples]
        for sample, own, value in rows:
            _check_sample(sample, own, labels)
            key = (sample, *[part for pair in sorted(own.items()) for part in pair])
            assert key not in samples, f"{key} comes twice"
            assert value >= 0
            samples[key if own else sample] = value
        if kind == "histogram":
            _check_histogram(name, rows)
        elif all(labels.values()):
            size = 1
            for known in labels.values():
                size *= len(known)
            assert len(rows) == size, f"{name} lacks a value"
    assert found == set(pages), set(pages) - found
    return samples
