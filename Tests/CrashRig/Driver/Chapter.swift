/// A piece of work that a process is killed in: what is there before, and the steps that count.
struct Chapter: Sendable {
    let name: String
    let before: [Step]
    let steps: [Step]

    static let all = [saves, names, steppingAside, dataless, remote, conflicts, deletions]

    static func named(_ name: String) -> Chapter? { all.first { $0.name == name } }

    /// Ways to save, with sending going on beside them.
    private static let saves = Chapter(
        name: "saves",
        before: [
            .remoteSave("a", Content(1, 5000)), .remoteSave("b", Content(2, 90_000)),
            .remoteSave("c", Content(3, 20)), .settle, .read("a"), .read("b"), .read("c"),
        ],
        steps: [
            Step.save("new", Content(10, 10_000)),
            [.create("log", as: "log"), .write("log", at: 0, Content(11, 300))],
            [.write("log", at: 300, Content(12, 400)), .fsync("log"), .write("log", at: 700, Content(13, 5000))],
            Step.change("b", at: 30_000, Content(14, 8192)),
            Step.rewrite("a", Content(15, 6000)),
            [.truncate("b", to: 50_000), .truncate("c", to: 300), .flush("log"), .release("log")],
            // By rename, by a backup, by exchange.
            Step.save("a.part", Content(16, 4097)),
            [.rename("a.part", to: "a")],
            [.rename("c", to: "c~")], Step.save("c", Content(17, 100)), [.unlink("c~")],
            Step.save("b.part", Content(18, 70_000)),
            [.exchange("b.part", with: "b"), .unlink("b.part")],
            [.settle, .chmod("a", 0o600), .setAttribute("b", "user.kind", Content(19, 12))],
            Step.change("new", at: 10_000, Content(20, 3)),
            [.truncate("new", to: 0), .unlink("log"), .settle],
        ].flatMap { $0 }
    )

    /// Moves of everything.
    private static let names = Chapter(
        name: "names",
        before: [
            .remoteMakeDirectory("d/deep"), .remoteMakeDirectory("e"), .remoteSave("d/a", Content(100, 3000)),
            .remoteSave("d/deep/b", Content(101, 4000)), .remoteSave("e/c", Content(102, 100)),
            .remoteSave("x", Content(103, 10)), .remoteSave("y", Content(104, 20)), .remoteSave("z", Content(105, 30)),
            .settle, .read("d/a"), .read("d/deep/b"), .read("e/c"),
        ],
        steps: [
            [.rename("d/a", to: "e/a"), .rename("d/deep", to: "e/deep"), .makeDirectory("f"), .makeDirectory("f/g")],
            Step.save("f/g/h", Content(110, 5000)),
            [.arrival("f"), .link("f/g/h", as: "f/i"), .symlink("f/s", to: "g/h"), .rename("f", to: "d/f"), .settle],
            // What is being made moves on, changes and goes.
            Step.save("u", Content(112, 2000)),
            [.arrival("u"), .rename("u", to: "u2")],
            Step.save("v", Content(113, 2000)),
            [.arrival("v"), .truncate("v", to: 100)],
            [.makeDirectory("q"), .arrival("q"), .removeDirectory("q")],
            Step.save("t", Content(114, 3000)),
            [.arrival("t"), .unlink("t"), .symlink("l", to: "x"), .arrival("l"), .rename("l", to: "m"), .settle],
            // A circle, and two directories that trade places.
            [.rename("x", to: "w"), .rename("y", to: "x"), .rename("z", to: "y"), .rename("w", to: "z")],
            [.exchange("d", with: "e"), .exchange("x", with: "y"), .settle],
            [.rename("d/c", to: "x"), .unlink("e/f/i"), .rename("e/f/s", to: "s"), .link("z", as: "z2")],
            Step.change("z2", at: 5, Content(111, 50)),
            [.rename("e/f", to: "f"), .rename("d/deep", to: "f/g/deep"), .removeDirectory("e"), .settle],
        ].flatMap { $0 }
    )

    /// Names that are taken again while the provider still knows them as something else's.
    private static let steppingAside = Chapter(
        name: "stepping aside",
        before: [
            .remoteMakeDirectory("d"), .remoteMakeDirectory("e"), .remoteSave("d/a", Content(200, 3000)),
            .remoteSave("d/b", Content(201, 100)), .remoteSave("e/c", Content(202, 100)), .settle, .read("d/a"),
        ],
        steps: [
            // The old directory can't go before what moves out of it, and that can't move before there is a new one.
            [.pause, .rename("d/a", to: "a"), .unlink("d/b"), .removeDirectory("d"), .makeDirectory("d")],
            [.rename("a", to: "d/a"), .resume, .glimpse(".cove-moving-"), .rename("d", to: "d2"), .settle],
            [.rename("d2", to: "d"), .settle],
            [.pause, .rename("d", to: "t"), .rename("e", to: "d"), .rename("t", to: "e"), .rename("e/a", to: "d/a")],
            [.resume, .settle],
            // A directory becomes a file, and a file a directory.
            [.pause, .removeDirectory("e")],
            Step.save("e", Content(203, 500)),
            [.rename("d/c", to: "c"), .unlink("d/a"), .removeDirectory("d"), .rename("c", to: "d"), .resume, .settle],
        ].flatMap { $0 }
    )

    /// Files whose bytes are only at the source.
    private static let dataless = Chapter(
        name: "dataless",
        before: [
            .remoteMakeDirectory("m"), .remoteSave("big", Content(300, 3_000_000)),
            .remoteSave("a", Content(301, 40_000)), .remoteSave("b", Content(302, 2_500_000)),
            .remoteSave("c", Content(303, 9000)),
            .remoteSave("d", Content(304, 2_000_000)), .remoteSave("e", Content(305, 70_000)), .settle,
        ],
        steps: [
            [.read("big", from: 1_500_000, count: 4096), .read("a"), .rename("c", to: "m/c"), .unlink("e")],
            [.open("b", as: "b"), .write("b", at: 1_200_000, Content(310, 5000)), .read("b", from: 0, count: 100)],
            [.flush("b"), .release("b"), .truncate("d", to: 1_000_000), .truncate("d", to: 1_500_000)],
            [.evict("a"), .read("a"), .settle, .evict("b"), .evict("d"), .read("d", from: 0, count: 10)],
            Step.change("d", at: 1_500_000, Content(311, 3000)),
            Step.rewrite("big", Content(312, 1000)),
            [.read("m/c"), .evict("m/c"), .truncate("b", to: 77), .settle, .read("b")],
        ].flatMap { $0 }
    )

    /// Another device works beside.
    private static let remote = Chapter(
        name: "remote",
        before: [
            .remoteMakeDirectory("d"), .remoteSave("d/a", Content(400, 3000)), .remoteSave("d/b", Content(401, 100)),
            .remoteSave("c", Content(402, 5000)), .remoteSave("e", Content(403, 500)), .settle, .read("d/a"),
            .read("c"),
        ],
        steps: [
            [.remoteSave("c", Content(410, 6000)), .remoteSave("d/new", Content(411, 100)), .remoteRemove("e")],
            Step.save("mine", Content(412, 3000)),
            [.settle, .read("c"), .remoteRename("d/a", to: "a"), .remoteMakeDirectory("f/g")],
            [.remoteSave("f/g/h", Content(413, 7000)), .makeDirectory("own"), .settle, .read("f/g/h"), .evict("c")],
            [.remoteRename("f", to: "d/f"), .remoteSave("c", Content(414, 30)), .rename("mine", to: "own/mine")],
            [.settle, .read("d/f/g/h"), .read("c"), .remoteRemove("d/f"), .settle],
        ].flatMap { $0 }
    )

    /// Both sides change one document: what either wrote must be somewhere below `both` in the end.
    private static let conflicts = Chapter(
        name: "conflicts",
        before: [
            .remoteMakeDirectory("both"), .remoteSave("both/a", Content(500, 3000)),
            .remoteSave("both/b", Content(501, 100)), .remoteSave("both/c", Content(502, 5000)),
            .remoteSave("both/d", Content(503, 5001)), .settle, .read("both/a"), .read("both/b"),
            .read("both/c"), .read("both/d"), .pause,
        ],
        steps: [
            Step.rewrite("both/a", Content(510, 4000)),
            [.remoteSave("both/a", Content(511, 2000)), .unlink("both/b"), .remoteSave("both/b", Content(512, 200))],
            Step.change("both/c", at: 5000, Content(513, 1)),
            [.remoteRemove("both/c"), .rename("both/d", to: "both/e"), .remoteSave("both/d", Content(514, 10))],
            Step.save("both/f", Content(515, 700)),
            [.remoteSave("both/f", Content(516, 800)), .resume, .settle],
        ].flatMap { $0 }
    )

    /// Deletions, of what is here and of what is not, and new things under the old names.
    private static let deletions = Chapter(
        name: "deletions",
        before: [
            .remoteMakeDirectory("d/e"), .remoteSave("d/a", Content(600, 3000)),
            .remoteSave("d/e/b", Content(601, 100)), .remoteSave("c", Content(602, 5000)),
            .remoteSave("f", Content(603, 5001)), .settle, .read("d/a"), .read("c"), .link("c", as: "c2"), .settle,
        ],
        steps: [
            [.unlink("d/e/b"), .removeDirectory("d/e"), .unlink("d/a"), .settle, .removeDirectory("d"), .unlink("c")],
            [.open("f", as: "f"), .unlink("f"), .write("f", at: 3, Content(610, 5)), .flush("f"), .release("f")],
            Step.save("d", Content(611, 100)),
            [.unlink("d"), .makeDirectory("d"), .settle],
            Step.save("d/x", Content(612, 2000)),
            [.create("gone", as: "gone"), .write("gone", at: 0, Content(613, 9000)), .unlink("gone")],
            [.release("gone")],
            [.unlink("c2"), .settle, .unlink("d/x"), .removeDirectory("d"), .settle],
        ].flatMap { $0 }
    )
}
