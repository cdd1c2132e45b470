"""Why mutants survive: changes that change nothing, by pattern, and single ones that were looked at."""

from __future__ import annotations

import re

GAP = "a gap: no test detects it yet"

DEFAULT = "what is left out is the default"
TYPE = "other types hold the values that come in as well"
ORDER = "equal entries get equal answers in any order"
PIECE = "the size of a piece changes memory and time, not numbers"
BEFORE = "excluded by an earlier check"
NEVER = "no number that occurs lies exactly on the limit"
SPARE = "only work on values of no weight is spared"
COPY = "a copy more or less"
OVERLAP = "pieces overlap: the same numbers, in more time"
SIDES = "a direction is 1 or -1"
ALIKE = "two runs of one metric are measured in the same way"
CHOICE = "more or fewer candidates than were meant: the sort that follows decides"

PATTERNS: list[tuple[str, str]] = [
    (r"astype\(np\.\w+\).* => .*astype\(None\)", TYPE),
    (r"errstate\(.* => .*errstate\(", "a warning at most: nothing is divided by zero there in a test"),
    (r"dtype=(np\.\w+|bool).* => .*(dtype=None|, \))", TYPE),
    (r'kind="stable".* => .*kind="STABLE"', "NumPy reads the name in any case"),
    (r'kind="stable".* => ', ORDER),
    (r"strict=(True|False).* => ", BEFORE),
    (r"minlength=.* => .*, \)", BEFORE),
    (r"undefined=False.* => .*undefined=None", "None is as false as False"),
    (r"max\(1, .*// .* => .*max\([12], .*//? ", PIECE),
    (r"(partition|take_along_axis)\(.*axis=1.* => ", DEFAULT),
    (r"for start in range\(.*, step\).* => .*range\(.*, \)", OVERLAP),
    (r"= slice\(start, .* => ", OVERLAP),
    (r'side="left".* => .*, \)', DEFAULT),
    (r"rng.integers\(0, .* => .*rng.integers\(n", DEFAULT),
    (r"reshape\(.*, -1\).* => .*reshape\(.*, -2\)", "NumPy takes any negative length for the one that is left"),
    (r"out=space.* => ", "memory is taken anew: the numbers are the same"),
    (r"dtype=scores.dtype.* => ", TYPE),
    (r"np.sort\(.*axis=1\).* => ", DEFAULT),
    (r"cast\(", "a cast does nothing at run time"),
    (r"copy=False.* => ", COPY),
    (r"out=(score|out|np\.).* => .*(out=None|, \))", "what lies where nothing is written is not read"),
    (r"assume_unique=.* => ", "places are unique: the same answer by a longer way"),
    (r"reshape\(-1, .* => .*reshape\(-2, ", "NumPy takes any negative length for the one that is left"),
]
"""Regular expressions over "before => after", the first that fits; the reason."""

LOOKED_AT: dict[tuple[str, str], str] = {
    ("cielab", "arange(257)"): "8-bit values never reach the entry",
    ("cielab", "level >= 0.04045"): NEVER,
    ("cielab", "ratio >= 0.008856"): NEVER,
    ("_kolkur", "keep &= (y"): "no 8-bit colour lies exactly on the limit (all 2^24 were tried)",
    ("_kolkur", "keep &= (cr"): "no 8-bit colour lies exactly on the limit (all 2^24 were tried)",
    ("_trimmed_mean", "< spread"): NEVER,
    ("_classes", "XXiuUXX"): "no NumPy type has the kind X",
    ("expected_max_skew", "draws is None and rng is None"): BEFORE,
    ("expected_max_skew", "size=draws, )"): DEFAULT,
    ("_distribution", ">= LOST"): NEVER,
    ("_distribution", "every_group_within = "): SPARE,
    ("_distribution", "first = "): SPARE,
    ("_sums_to_k", "likely = "): NEVER,
    ("_sums_to_k", "place = "): SPARE,
    ("_sums_to_k", "np.clip("): "counts that low are of no weight, and were cut off before",
    ("cluster_ols", "still = error < "): NEVER,
    ("Resamples.__post_init__", "max(self.draws, 1)"): "set_count_chunks refuses draws under 1 next",
    ("Resamples.__post_init__", "max(self.n_sets, 1)"): "set_count_chunks refuses sets under 1 next",
    (
        "Resamples.__post_init__",
        "np.uint16)",
    ): "the narrower type saves memory; no draw holds one of 256 sets 256 times",
    ("Resamples.__post_init__", "write="): "None is as false as False",
    ("skew_interval", "errstate(divide=None)"): "only a warning, of a group without images, would be shown",
    ("skew_interval", "share < 1"): NEVER,
    ("skew_interval", "np.minimum(share, 2.0)"): "a share exceeds 1 by rounding at most",
    ("_narrowed", "above = "): CHOICE,
    ("_narrowed", "k + above.size"): CHOICE,
    ("floating", "array.dtype, None"): "float32 becomes float64, and holds the same numbers",
    ("top_k", "if found.size"): CHOICE,
    ("_bound", "while lanes"): CHOICE,
    ("_bound", "half = "): CHOICE,
    ("tie_at_k", "min(k + 2"): "an image more than needed is kept",
    ("desired_shares", ">= 1e-6"): NEVER,
    ("entropy_terms", "- 0.0"): "only the sign of a zero",
    ("entropy_terms", "share, 2.0)"): "it is multiplied by a share of 0",
    ("ndkl_of_ranking", "discount = 2.0"): "a factor of all discounts cancels in their mean",
    ("moments", "(counts >= 0)"): "a group without images is refused, or has more of them in another part",
    ("_tops", "prefix = min(images, 3"): "a longer prefix than needed",
    ("_tops", "prefix = min(images, 2 * k + 51"): "a longer prefix than needed",
    ("_tops", "<= k"): "a longer prefix than needed",
    ("_tops", "axis=1, prepend"): DEFAULT,
    ("_tops", "minimum(reached, k), prepend"): DEFAULT,
    ("weighted_group_counts", "shape[+1]"): "the second axis is the last",
    ("_tops", "while prefix"): "a longer prefix than needed",
    ("_tops", "check_k"): BEFORE,
    ("mean_limits", "highest = lowest"): "not read where no group is dense",
    ("_extremes", "complete = "): "the sets that hold a group are counted where all do, too",
    ("_extremes", "columns = "): "the sets that hold a group are counted where all do, too",
    ("_extremes", "* error"): "the unit cancels in t",
    ("_p_extreme", "t >= 0"): "p is 1 at t = 0 either way",
    ("_p_extreme", "p, 2.0)"): "p is cut at 1 next",
    ("_p_hidden", "rate, None"): "no rate lies under 0",
    ("_p_hidden", "), 2.0)"): "p is cut at 1 next",
    ("_Reach.at", "far = np.maximum"): "it is 0 before",
    ("decided", ">= -margin"): NEVER,
    ("decided", ">= margin"): NEVER,
    ("decided", "<= margin"): NEVER,
    ("decided", "| (limits.above == 0)"): "limits reach 0 both ways at once, and of a mean of 0",
    ("_sets_needed", "<= np.abs(distance)"): NEVER,
    ("_sets_needed", "needed < "): NEVER,
    ("_toward", "distance <= 0"): "at a distance of 0 no number of sets helps either way",
    ("image_changes", "< rounding"): NEVER,
    ("_best", "free + 2"): "the last entry is not read",
    ("_nearest", "einsum("): "NumPy takes letters of either case",
    ("_nearest", "slack = "): "a wider or narrower choice of candidates, among which exact distances decide",
    ("_nearest", "rough = "): "a shift of a whole row leaves its order",
    ("_nearest", "= None"): "NumPy turns None into NaN, which is sorted last as infinity is",
    ("_nearest", "< edge[row]"): "the edge is wider than rounding",
    ("relative_difference", "<= PARITY"): NEVER,
    ("relative_difference", '"INF"'): "Python reads the name in any case",
    ("image_changes", "XXiuXX"): "no NumPy type has the kind X",
    ("_Reach.p_value", ", 2.0)"): "draws as few are refused",
    ("bias_tie_range", "groups + 2)"): "a group without images changes nothing",
    ("tie_range", "np.arange(k + 2)"): "no group has more than k places: the entry is not read",
    ("weighted_median", "/ 2)"): "whole numbers are at most a half just where they are at most its whole part",
    ("bootstrap", "np.ones((2, n_sets)"): "the first of two equal rows is read",
    ("_groups", "else (1, 0)"): "either way there are no groups, and that is refused",
    ("_share_limits", "out=size"): "where every answer was right, or wrong, draws do not vary",
    ("_share_limits", "some = "): "the limit is not read there: it is 0 or 1",
    ("Power.at", "XXiuXX"): "no NumPy type has the kind X",
    ("mean_evidence", "= None"): "None is as false as False",
    ("mean_evidence", ">= _SILENT"): NEVER,
    ("mean_evidence", "< _SILENT"): NEVER,
    ("mean_evidence", "direction >= 0"): SIDES,
    ("mean_evidence", "sparse | judged"): "resampled groups are set next, and groups that are not judged left out",
    ("mean_evidence", "(draws, 1)"): "no group has the column",
    ("_Hidden.reach", "far, 1.0)"): "resampled groups are set next, and groups that are not judged left out",
    ("_Answers.z", "direction <"): SIDES,
    ("_Answers.reach", "direction <"): SIDES,
    ("are_answers", "lowest, highest = "): "any sample is lower and higher",
    ("signs", "-1001.0"): NEVER,
    ("_drawn", "* error"): "the unit cancels in t",
    ("_drawn", "complete = "): "counted either way: the same numbers, in more time",
    ("_drawn", "if (complete) and False"): "counted either way: the same numbers, in more time",
    ("_drawn", "] = None"): "NumPy turns None into NaN, which is no finite t either",
    ("_drawn", "variance < squares"): NEVER,
    ("adjusted", ", None, MOST_CERTAIN"): "a score that low has a p of 1 either way",
    ("adjusted", "-MOST_CERTAIN, None"): "no p is under the least that so many sets can show",
    ("differences", "same = "): "a shortcut: what differs is looked for otherwise, too",
    ("_decided", "< design.alpha"): NEVER,
    ("_decided", "clear = high <= -margin"): NEVER,
    ("_decided", "own.above <= -margin"): NEVER,
    ("_decided", "low >= margin"): NEVER,
    ("_decided", "interval.mean >= 0"): NEVER,
    ("_decided", "interval.mean <= 0"): NEVER,
    ("_decided", "own.mean - 0.0"): "only the sign of a zero",
    ("_sets_needed", "<= -margin"): NEVER,
    ("_margin_decided", "< comparison.design.alpha"): NEVER,
    ("_margin_decided", "margin <= margin"): NEVER,
    ("_in_family", "needed < "): NEVER,
    ("_settles", "needed < "): NEVER,
    ("_settles", "<= np.abs(distance)"): NEVER,
    ("_in_family", "p_worse, 2.0"): "no p alone is above the one in the family",
    ("compare_means", "4001"): "the count of draws is the caller's",
    ("PairedResult.sets_to_settle", ">= self.margin"): NEVER,
    ("PairedResult.margin_to_settle", ">= self.margin"): NEVER,
    ("_side", "lo <= 0"): "an end at 0 is among the ends already",
    ("_side", "0 <= hi"): "an end at 0 is among the ends already",
    ("_settling", "XXfailXX"): "where a group fails, those that fail are all that is chosen from next",
    ("_settling", "FAIL"): "where a group fails, those that fail are all that is chosen from next",
    ("absolute_reason", "'XXXX'.join"): "one group at most is joined",
    ("regression_reason", "rpartition"): "only the limits have a bracket",
    ("_farthest", "size > size.max()"): NEVER,
    ("_moved", "delta >= 0"): BEFORE,
    ("_too_small", "'in only ', "): "the word is there once",
    ("compare", "is not None or before.paired"): ALIKE,
    ("compare", "is not None or before.images"): ALIKE,
    ("_in_both", "is None and before.paired"): ALIKE,
    ("_in_both", "paired=own, group_sets"): "a list of numbers has their weights",
    ("_in_both", "paired=theirs, group_sets"): "a list of numbers has their weights",
    ("_in_both", "weights=None, )"): "the smaller count of both runs is taken next",
    ("_known_sets", "spec.gaps or"): "of a metric without gaps every set has a number",
}
"""(function, part of the changed line): the reason."""


def reason_for(function: str, before: str, after: str) -> str:
    """Why the change makes no difference that a test should see, or GAP."""
    for (where, part), reason in LOOKED_AT.items():
        if where == function and part in after:
            return reason
    change = f"{before} => {after}"
    return next((reason for pattern, reason in PATTERNS if re.search(pattern, change)), GAP)
