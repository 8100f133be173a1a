# SPDX-License-Identifier: Apache-2.0
"""The 60 kinds of object of xView: the number that the labels use, the name, and how many there are.

The numbers have gaps: 75 and 82 stand in the labels and are no kind. Counts are those of the training images
after cleaning, as published with a detector of 2018 for these images; 596,154 in all.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    number: int
    name: str
    count: int


KINDS = (
    Kind(11, "Fixed-wing Aircraft", 74),
    Kind(12, "Small Aircraft", 364),
    Kind(13, "Cargo Plane", 713),
    Kind(15, "Helicopter", 71),
    Kind(17, "Passenger Vehicle", 2_925),
    Kind(18, "Small Car", 209_767),
    Kind(19, "Bus", 6_925),
    Kind(20, "Pickup Truck", 1_101),
    Kind(21, "Utility Truck", 3_612),
    Kind(23, "Truck", 12_134),
    Kind(24, "Cargo Truck", 5_871),
    Kind(25, "Truck w/Box", 3_640),
    Kind(26, "Truck Tractor", 860),
    Kind(27, "Trailer", 4_062),
    Kind(28, "Truck w/Flatbed", 895),
    Kind(29, "Truck w/Liquid", 149),
    Kind(32, "Crane Truck", 174),
    Kind(33, "Railway Vehicle", 17),
    Kind(34, "Passenger Car", 1_624),
    Kind(35, "Cargo Car", 1_846),
    Kind(36, "Flat Car", 125),
    Kind(37, "Tank car", 122),
    Kind(38, "Locomotive", 124),
    Kind(40, "Maritime Vessel", 662),
    Kind(41, "Motorboat", 1_452),
    Kind(42, "Sailboat", 697),
    Kind(44, "Tugboat", 222),
    Kind(45, "Barge", 190),
    Kind(47, "Fishing Vessel", 786),
    Kind(49, "Ferry", 200),
    Kind(50, "Yacht", 450),
    Kind(51, "Container Ship", 295),
    Kind(52, "Oil Tanker", 79),
    Kind(53, "Engineering Vehicle", 205),
    Kind(54, "Tower crane", 156),
    Kind(55, "Container Crane", 181),
    Kind(56, "Reach Stacker", 70),
    Kind(57, "Straddle Carrier", 64),
    Kind(59, "Mobile Crane", 337),
    Kind(60, "Dump Truck", 1_352),
    Kind(61, "Haul Truck", 336),
    Kind(62, "Scraper/Tractor", 78),
    Kind(63, "Front loader/Bulldozer", 628),
    Kind(64, "Excavator", 841),
    Kind(65, "Cement Mixer", 287),
    Kind(66, "Ground Grader", 83),
    Kind(71, "Hut/Tent", 702),
    Kind(72, "Shed", 1_177),
    Kind(73, "Building", 313_865),
    Kind(74, "Aircraft Hangar", 195),
    Kind(76, "Damaged Building", 1_081),
    Kind(77, "Facility", 882),
    Kind(79, "Construction Site", 1_059),
    Kind(83, "Vehicle Lot", 4_175),
    Kind(84, "Helipad", 123),
    Kind(86, "Storage Tank", 1_700),
    Kind(89, "Shipping container lot", 2_317),
    Kind(91, "Shipping Container", 1_579),
    Kind(93, "Pylon", 368),
    Kind(94, "Tower", 85),
)


def chosen(count: int) -> tuple[Kind, ...]:
    """All kinds for 0, else the `count` most frequent; in the order of the table."""
    if not count:
        return KINDS
    largest = sorted(KINDS, key=lambda kind: -kind.count)[:count]
    return tuple(kind for kind in KINDS if kind in largest)
