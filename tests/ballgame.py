"""The sentence of MS-SAN's figures 2 and 3, its heads, and the distances between its words counted by hand."""

WORDS = ["Two", "kids", "at", "a", "ballgame", "wash", "their", "hands"]
HEADS = [2, 6, 5, 5, 2, 0, 8, 6]
DISTANCES = [
    [0, 1, 3, 3, 2, 2, 4, 3],
    [1, 0, 2, 2, 1, 1, 3, 2],
    [3, 2, 0, 2, 1, 3, 5, 4],
    [3, 2, 2, 0, 1, 3, 5, 4],
    [2, 1, 1, 1, 0, 2, 4, 3],
    [2, 1, 3, 3, 2, 0, 2, 1],
    [4, 3, 5, 5, 4, 2, 0, 1],
    [3, 2, 4, 4, 3, 1, 1, 0],
]
