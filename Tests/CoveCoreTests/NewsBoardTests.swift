import CoveCore
import CoveTestSupport
import Testing

/// What devices leave word of, whatever they do and whatever comes of it.
@Suite struct NewsBoardTests {
    private func path(_ text: String) -> RemotePath {
        RemotePath(unchecked: Array(text.utf8))
    }

    /// Who has heeded all up to a number is told of every directory that was changed after it, or that not all is told.
    @Test func `nothing is left out unsaid`() throws {
        let seed = UInt64.random(in: 0..<1 << 32)
        print("news board: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        var board = NewsBoard()
        var changed: [String: [(number: Int64, directory: RemotePath)]] = [:]
        for step in 0..<600 {
            let device = ["a", "b", "c"][Int.random(in: 0..<3, using: &random)]
            var changes: [RemotePath: Set<FileName>?] = [:]
            for _ in 0..<Int.random(in: 1...9, using: &random) {
                let name = FileName(unchecked: Array("n\(Int.random(in: 0..<30, using: &random))".utf8))
                let directory = path("d/\(Int.random(in: 0..<900, using: &random))")
                changes.updateValue(Bool.random(using: &random) ? [name] : nil, forKey: directory)
            }
            let used = changed[device]?.last?.number ?? 0
            let number = board.add(changes, of: device, after: used, at: Int64(step))
            #expect(number > used)
            changed[device, default: []] += changes.keys.map { (number, $0) }
            // Another device's write may take its place: whoever lost something leaves it again, with what comes next.
            if Int.random(in: 0..<20, using: &random) == 0 { board.devices[device] = nil }
            let bytes = board.encode(for: device)
            #expect(bytes.count <= NewsBoard.greatestSize)
            let read = try #require(NewsBoard(parsing: bytes))
            #expect(read == board)
            for (other, all) in changed {
                guard let word = board.devices[other] else { continue }
                let heeded = Int64.random(in: 0...word.last, using: &random)
                if word.first > heeded + 1 { continue }
                let told = Set(word.places.filter { $0.number > heeded }.map(\.directory))
                #expect(Set(all.filter { $0.number > heeded }.map(\.directory)).subtracting(told) == [])
            }
        }
    }

    @Test func `names are told until there are too many`() throws {
        var board = NewsBoard()
        let names = (0..<20).map { FileName(unchecked: Array("n\($0)".utf8)) }
        board.add([.root: [names[0]]], of: "a", after: 0, at: 1)
        board.add([.root: [names[1]]], of: "a", after: 2, at: 1)
        #expect(board.devices["a"]?.places == [.init(.root, [names[0], names[1]], number: 3)])
        board.add([.root: Set(names)], of: "a", after: 3, at: 1)
        #expect(board.devices["a"]?.places == [.init(.root, nil, number: 4)])
    }

    @Test func `it stays small, and forgets who is silent`() throws {
        var board = NewsBoard()
        let long = String(repeating: "x", count: 200)
        for device in 0..<40 {
            let changes = (0..<300).map { (path("\(long)/\(long)/\($0)"), Optional<Set<FileName>>.none) }
            board.add(Dictionary(uniqueKeysWithValues: changes), of: "\(device)", after: 0, at: Int64(device))
        }
        #expect(board.encode(for: "7").count <= NewsBoard.greatestSize)
        let word = try #require(board.devices["7"])
        #expect(!word.places.isEmpty && word.first > 0)
        board.add([:], of: "new", after: 0, at: NewsBoard.silence + 100)
        #expect(board.devices.keys.sorted() == ["new"])
    }

    @Test func `numbers and times at their ends, and hidden places, do no harm`() throws {
        for text in [
            #"{"devices":{"x":{"last":9223372036854775807,"first":1,"time":1,"places":[]}}}"#,
            #"{"devices":{"x":{"last":-1,"first":1,"time":1,"places":[]}}}"#,
            #"{"devices":{"x":{"last":1,"first":1,"time":1,"places":[{"n":1,"path":"a/../b"}]}}}"#,
            #"{"devices":{"x":{"last":1,"first":1,"time":1,"places":[{"n":1,"path":"a","path_base64":"YQ=="}]}}}"#,
            #"{"devices":[]}"#, "", "null", "{", String(repeating: "[", count: 100_000),
        ] {
            #expect(NewsBoard(parsing: Array(text.utf8)) == nil, "\(text.prefix(100))")
        }
        let odd = """
            {"devices":{"x":{"last":2305843009213693951,"first":-9223372036854775808,"time":9223372036854775807,"places":[
            {"n":9223372036854775807,"path":"a","names":["ok","/","..",".cove-x"]},{"n":-5,"path":".cove-trash/b"}]}}}
            """
        var board = try #require(NewsBoard(parsing: Array(odd.utf8)))
        #expect(board.devices["x"]?.places.map(\.directory) == [path("a")])
        #expect(board.devices["x"]?.places.first?.names == [FileName(unchecked: Array("ok".utf8))])
        for time in [Int64.min, -1, .max] { board.add([.root: nil], of: "x", after: .max, at: time) }
        for time in [Int64.min, .max] { board.add([.root: nil], of: "y", after: 0, at: time) }
        #expect(NewsBoard(parsing: board.encode(for: "y")) != nil)
    }

    @Test func `a number that leaves no room for more is no last word`() throws {
        let text = #"{"devices":{"x":{"last":2305843009213693951,"first":1,"time":1,"places":[]}}}"#
        var board = try #require(NewsBoard(parsing: Array(text.utf8)))
        let first = board.add([.root: nil], of: "x", after: .max, at: 1000)
        let second = board.add([.root: nil], of: "x", after: first, at: 1001)
        #expect(first == 1001 && second == 1002)
        board.admitGap(of: "x")
        let word = try #require(board.devices["x"])
        #expect(word.last == 1003 && word.first > word.last)
    }

    @Test func `damaged bytes are read or refused`() throws {
        let seed = UInt64.random(in: 0..<1 << 32)
        print("news bytes: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        var board = NewsBoard()
        board.add(
            [path("a/b"): [FileName(unchecked: Array("c".utf8))], RemotePath(unchecked: [0xFF]): nil],
            of: "x",
            after: 4,
            at: 9
        )
        let whole = board.encode(for: "x")
        var refused = 0
        for _ in 0..<3000 {
            var bytes = whole
            for _ in 0...Int.random(in: 0..<3, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: index)
                default: bytes.insert(bytes[Int.random(in: 0..<bytes.count, using: &random)], at: index)
                }
            }
            guard var read = NewsBoard(parsing: bytes) else {
                refused += 1
                continue
            }
            read.add([.root: nil], of: "x", after: 1, at: 5)
            #expect(!read.encode(for: "x").isEmpty)
        }
        #expect(refused > 100 && refused < 3000)
    }
}

@Suite struct MoneyTests {
    @Test func `small amounts keep two digits that count`() {
        let shown: [(Double, String)] = [
            (0, "0.00"), (-1, "0.00"), (.nan, "0.00"), (.infinity, "0.00"), (0.0000004, "0.0000004"),
            (0.00123, "0.0012"),
            (0.05, "0.050"), (0.5, "0.50"), (12.5, "12.50"), (0.999, "1.00"),
        ]
        for (amount, text) in shown { #expect(Units.dollars(amount) == text) }
    }
}
