"""Dependency trees over the words of one sentence: heads, labels, path lengths, projectivity."""

import heapq
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DependencyTree:
    r"""A dependency tree as one head per word: CoNLL ids, 0 is the root and words are 1..n.

    Several words may be attached to the root; the root is then a node of the tree like any other, and the path between
    two such words goes through it: with :math:`d_i` the depth of word *i* (1 for a word whose head is 0),

    .. math:: D(i, j) = d_i + d_j - 2\, d_{\mathrm{lca}(i, j)}

    Args:
        heads: the head of each word.
        labels: the relation of each word to its head.

    Raises:
        ValueError: if a head is out of range, if heads form a cycle, or if there are not as many labels as heads.
        TypeError: if a head is not an integer.

    Example:
        >>> tree = DependencyTree([2, 3, 0, 3])       # the kids wash hands
        >>> tree.is_projective, tree.roots, tree.depths()
        (True, (2,), [3, 2, 1, 2])
        >>> tree.distances()[0]
        [0, 1, 2, 3]
    """

    heads: tuple[int, ...]
    labels: tuple[str, ...] | None = None

    def __init__(self, heads: Sequence[int], labels: Sequence[str] | None = None) -> None:
        object.__setattr__(self, "heads", tuple(map(operator.index, heads)))
        object.__setattr__(self, "labels", None if labels is None else tuple(labels))
        num_words = len(self.heads)
        if self.labels is not None and len(self.labels) != num_words:
            raise ValueError(f"a tree of {num_words} words needs as many labels, got {len(self.labels)}")
        for word, head in enumerate(self.heads, start=1):
            if not 0 <= head <= num_words:
                raise ValueError(f"head of word {word} must be from 0 to {num_words}, got {head}")
        cycle = find_cycle(self.heads)
        if cycle:
            raise ValueError(f"heads must not form a cycle, got {' -> '.join(map(str, [*cycle, cycle[0]]))}")

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def roots(self) -> tuple[int, ...]:
        """Positions (from 0) of the words whose head is the root."""
        return tuple(word for word, head in enumerate(self.heads) if head == 0)

    @property
    def is_projective(self) -> bool:
        """Whether every word, together with all words below it, forms a contiguous span of the sentence.

        Equivalently, no two arcs cross, including those from the root, which is placed before the first word.
        """
        sizes = [1] * (len(self) + 1)
        for word in reversed(self._top_down()):
            sizes[self.heads[word - 1]] += sizes[word]
        return all(end - start == size for (start, end), size in zip(self.subtree_spans(), sizes[1:], strict=True))

    def depths(self) -> list[int]:
        """Number of arcs from the root to each word: 1 for a word whose head is the root."""
        depths = [0] * (len(self) + 1)
        for word in self._top_down():
            depths[word] = depths[self.heads[word - 1]] + 1
        return depths[1:]

    def distances(self) -> list[list[int]]:
        """Number of arcs on the path between every two words; words with head 0 are 2 apart."""
        order = self._top_down()
        rows = [[0] * (len(self) + 1) for _ in range(len(self) + 1)]
        done = [0]
        for word in order:
            row, head_row = rows[word], rows[self.heads[word - 1]]
            for earlier in done:
                row[earlier] = rows[earlier][word] = head_row[earlier] + 1
            done.append(word)
        return [row[1:] for row in rows[1:]]

    def moved(self, word: int, head: int) -> "DependencyTree":
        """Attach a word, with all words below it, to another head; it keeps its label.

        Args:
            word: its position, from 0.
            head: CoNLL id of the new head; 0 makes the word a root, beside the others.

        Raises:
            ValueError: if the head is the word itself or below it, which would make a cycle; or for an unknown word or
                head.

        Example:
            >>> DependencyTree([2, 3, 0, 3]).moved(3, 2).heads
            (2, 3, 0, 2)
        """
        self._check_position(word)
        if not 0 <= head <= len(self):
            raise ValueError(f"head of word {word + 1} must be from 0 to {len(self)}, got {head}")
        if head == word + 1:
            raise ValueError(f"word {head} cannot be its own head")
        if word + 1 in (self.path_to_root(head - 1) if head else []):
            raise ValueError(f"word {head} is below word {word + 1}, so it cannot be its head: that would be a cycle")
        heads = [*self.heads[:word], head, *self.heads[word + 1 :]]
        return DependencyTree(heads, self.labels)

    def rerooted(self, word: int) -> "DependencyTree":
        """Make a word the root by reversing the arcs on its path to the root; each arc keeps its label.

        The same words stay connected, and all distances within their tree stay the same. The new root takes the label
        of the old one. Of several roots, the one above the word is replaced.

        Args:
            word: its position, from 0.

        Raises:
            ValueError: for an unknown word.

        Example:
            >>> tree = DependencyTree([2, 3, 0, 3], ["det", "nsubj", "root", "obj"]).rerooted(0)
            >>> tree.heads, tree.labels
            ((0, 1, 2, 3), ('root', 'det', 'nsubj', 'obj'))
        """
        self._check_position(word)
        path = self.path_to_root(word)
        heads, labels = list(self.heads), None if self.labels is None else list(self.labels)
        for child, head in itertools.pairwise(path):
            heads[head - 1] = child
            if labels is not None and self.labels is not None:
                labels[head - 1] = self.labels[child - 1]
        heads[word] = 0
        if labels is not None and self.labels is not None:
            labels[word] = self.labels[path[-1] - 1]
        return DependencyTree(heads, labels)

    def relabelled(self, word: int, label: str) -> "DependencyTree":
        """Give the arc of a word another label.

        Args:
            word: its position, from 0.
            label: its relation to its head.

        Raises:
            ValueError: for an unknown word, or a tree without labels.

        Example:
            >>> DependencyTree([2, 0], ["det", "root"]).relabelled(0, "nsubj").labels
            ('nsubj', 'root')
        """
        self._check_position(word)
        if self.labels is None:
            raise ValueError(f"expected a tree with labels to relabel word {word + 1}, got one without")
        return DependencyTree(self.heads, [*self.labels[:word], label, *self.labels[word + 1 :]])

    def path_to_root(self, word: int) -> list[int]:
        """CoNLL ids from a word to the root's dependent above it, both included.

        Args:
            word: its position, from 0.

        Example:
            >>> DependencyTree([2, 3, 0, 3]).path_to_root(0)
            [1, 2, 3]
        """
        path, node = [], word + 1
        while node:
            path.append(node)
            node = self.heads[node - 1]
        return path

    def projectivised(self) -> "DependencyTree":
        """Make the tree projective by lifting arcs (Nivre and Nilsson 2005, section 2).

        While there is an arc whose head is not above every word that the arc spans, the shortest such arc (of equals
        the leftmost) is replaced by one from its head's head. Labels stay; a projective tree stays as it is. A tree
        with one root keeps one root.

        Example:
            >>> DependencyTree([3, 0, 2, 1]).projectivised().heads
            (2, 0, 2, 2)
        """
        if self.is_projective:
            return self
        heads = [0, *self.heads]
        children = _children(self.heads)
        # below[h] has bit w set when word w is h or below it. Lifting the arc of w away from h takes the words below w
        # out of below[h] and changes no other set, so only the other arcs from h can become non-projective, and one
        # that is non-projective stays so until it is lifted itself: a queue of them is all that is needed.
        below = [1 << word for word in range(len(heads))]
        for word in reversed(self._top_down()):
            below[heads[word]] |= below[word]

        def is_crossing(word: int) -> bool:
            left, right = sorted((word, heads[word]))
            between = (1 << right) - (2 << left)
            return bool(heads[word] and between & ~below[heads[word]])

        def queue_entry(word: int) -> tuple[int, int, int]:
            return abs(word - heads[word]), min(word, heads[word]), word

        queue = [queue_entry(word) for word in range(1, len(heads)) if is_crossing(word)]
        heapq.heapify(queue)
        queued = {word for _, _, word in queue}
        while queue:
            _, _, word = heapq.heappop(queue)
            queued.discard(word)
            head = heads[word]
            below[head] &= ~below[word]
            children[head].remove(word)
            heads[word] = heads[head]
            children[heads[word]].append(word)
            for child in (word, *children[head]):
                if child not in queued and is_crossing(child):
                    heapq.heappush(queue, queue_entry(child))
                    queued.add(child)
        return DependencyTree(heads[1:], self.labels)

    def subtree_spans(self) -> list[tuple[int, int]]:
        """For each word, the half-open span from the first to the last word at or below it.

        Example:
            >>> DependencyTree([2, 3, 0, 3]).subtree_spans()
            [(0, 1), (0, 2), (0, 4), (3, 4)]
        """
        first = list(range(len(self) + 1))
        last = list(range(len(self) + 1))
        for word in reversed(self._top_down()):
            head = self.heads[word - 1]
            first[head] = min(first[head], first[word])
            last[head] = max(last[head], last[word])
        return [(first[word] - 1, last[word]) for word in range(1, len(self) + 1)]

    def truncated(self, num_words: int) -> "DependencyTree":
        """The tree over the first words.

        A word whose head is cut off is attached to its nearest remaining ancestor, or becomes a root if there is none.
        A projective tree stays projective.

        Args:
            num_words: how many words stay at most.

        Example:
            >>> DependencyTree([4, 1, 1, 0, 4]).truncated(3).heads
            (0, 1, 1)
        """
        left = [0] * (len(self) + 1)
        for word in self._top_down():
            left[word] = word if word <= num_words else left[self.heads[word - 1]]
        heads = [left[head] for head in self.heads[:num_words]]
        return DependencyTree(heads, None if self.labels is None else self.labels[:num_words])

    def _check_position(self, word: int) -> None:
        if not 0 <= word < len(self):
            raise ValueError(f"expected the position of one of {len(self)} words, from 0, got {word}")

    def _top_down(self) -> list[int]:
        """Word ids, heads before their dependents."""
        children = _children(self.heads)
        order = [0]
        for node in order:
            order.extend(children[node])
        return order[1:]


def find_cycle(heads: Sequence[int]) -> list[int]:
    """Find word ids that form a cycle; empty if the heads, each from 0 to the number of words, form a tree."""
    state = [0] * (len(heads) + 1)  # 0 not seen, 1 on the path being walked, 2 leads to the root
    state[0] = 2
    for start in range(1, len(heads) + 1):
        path = []
        word = start
        while state[word] == 0:
            state[word] = 1
            path.append(word)
            word = heads[word - 1]
        if state[word] == 1:
            return path[path.index(word) :]
        for passed in path:
            state[passed] = 2
    return []


def _children(heads: Sequence[int]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for word, head in enumerate(heads, start=1):
        children[head].append(word)
    return children
