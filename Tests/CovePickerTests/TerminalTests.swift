import CoveCore
import CoveTestSupport
import Testing

@testable import CovePicker

/// The face on a terminal: keys, widths and what is drawn.
@Suite struct TerminalTests {
    // MARK: Keys

    @Test(
        arguments: [
            ("a", [Key.text("a")]), ("é日", [.text("é"), .text("日")]), ("\r", [.enter]), ("\n", [.enter]),
            ("\t", [.tab]),
            ("\u{7F}\u{08}", [.backspace, .backspace]), ("\u{1B}[A\u{1B}[B", [.up, .down]),
            ("\u{1B}OC\u{1B}OD", [.right, .left]),
            ("\u{1B}[1;5C", [.right]), ("\u{1B}[5~\u{1B}[6~", [.pageUp, .pageDown]),
            ("\u{1B}[H\u{1B}[4~", [.home, .end]),
            ("\u{1B}[3~", [.delete]), ("\u{15}", [.control("u")]),
            ("\u{1B}[200~x\ry\u{1B}[A\u{1B}[201~\r", [.text("x"), .text("y"), .enter]),
            ("\u{1B}\u{1B}[A", [.escape, .up]),
            ("\u{1B}[99;99;99Zx", [.text("x")]), ("\u{0}\u{1C}x", [.text("x")]), ("\u{85}x", [.text("x")]),
        ]
    )
    func `bytes become keys`(_ text: String, _ keys: [Key]) {
        var reader = KeyReader()
        let read = reader.take(Array(text.utf8))
        #expect(read == keys)
        // However they arrive.
        var slow = KeyReader()
        let slowly = text.utf8.flatMap { slow.take([$0]) }
        #expect(slowly == keys)
        #expect(!reader.isPending && !slow.isPending)
    }

    @Test func `an escape that nothing follows is the key`() {
        var reader = KeyReader()
        let first = reader.take([0x1B])
        #expect(first.isEmpty && reader.isPending)
        let (second, third) = (reader.flush(), reader.flush())
        #expect(second == [.escape] && !reader.isPending && third.isEmpty)
    }

    @Test func `bytes at random never stop the reader, and what goes on for ever is dropped`() {
        var generator = SeededGenerator(seed: 7)
        var reader = KeyReader()
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 1...12, using: &generator)).map { _ in
                Bool.random(using: &generator)
                    ? UInt8.random(in: 0...255, using: &generator)
                    : [0x1B, 0x5B, 0x3B, 0x31].randomElement(using: &generator)!
            }
            for case .text(let text) in reader.take(bytes) {
                #expect(!text.unicodeScalars.contains { $0.properties.generalCategory == .control })
            }
        }
        _ = reader.flush()
        _ = reader.take([0x1B, 0x5B] + [UInt8](repeating: 0x31, count: 100_000))
        let last = reader.take(Array("x\r".utf8)).last
        #expect(last == .enter)
        // Bytes that are no UTF-8.
        #expect(KeyReader.keys([0xFF, 0x61, 0xC3, 0x28, 0xE2, 0x82, 0x62]) == [.text("a"), .text("("), .text("b")])
    }

    // MARK: Widths

    @Test(
        arguments: [
            ("abc", 3), ("é", 1), ("e\u{301}", 1), ("日本", 4), ("한국", 4), ("👍🏽", 2), ("👨‍👩‍👧", 2), ("🇩🇪", 2), ("ｱ", 1),
            ("Ａ", 2),
            ("\u{200B}", 0), ("❤️", 2), ("…", 1), ("", 0),
        ]
    )
    func `a text has as many columns as a terminal gives it`(_ text: String, _ width: Int) {
        #expect(TextWidth.of(text) == width)
    }

    @Test func `texts are cut between characters`() {
        #expect(TextWidth.cut("日本語", to: 6) == "日本語" && TextWidth.cut("日本語", to: 5) == "日本…")
        #expect(
            TextWidth.cut("日本語", to: 4) == "日…" && TextWidth.cut("abc", to: 1) == "…"
                && TextWidth.cut("abc", to: 0) == ""
        )
        #expect(TextWidth.cut("e\u{301}e\u{301}e\u{301}", to: 2) == "e\u{301}…")
        #expect(TextWidth.end(of: "日本語", in: 5) == "…本語" && TextWidth.end(of: "abc", in: 3) == "abc")
        #expect(TextWidth.fill("日", 4) == "日  " && TextWidth.fill("7", 3, left: true) == "  7")
    }

    // MARK: Layout

    private static func model(_ mode: PickerMode = .import, _ names: [String]) async throws -> PickerModel {
        try await blocking {
            let service = try MadeUpService(
                mode: mode,
                file: "/tmp/my file.txt",
                folders: ["/mnt": names.map { .made($0) }]
            )
            var model = PickerModel(service.request, roots: try service.roots())
            let listing = try FolderListing(Array("/mnt".utf8), of: service) {}
            try waitUntil("it is listed") { listing.progress == .done }
            model.take(listing)
            return model
        }
    }

    @Test func `no screen goes beyond its size, whatever the names are`() async throws {
        let names = [
            "plain.txt", "folder/", "日本語の長い名前のファイル.txt", "e\u{301}\u{301}\u{301}.txt", "👨‍👩‍👧👍🏽🇩🇪.png",
            "evil\u{1B}[2J\u{9B}31m\n\r\t.txt", String(repeating: "x", count: 255), String(repeating: "漢", count: 85),
            "\u{202E}txt.exe", "",
        ].filter { !$0.isEmpty }
        for mode in [PickerMode.import, .export] {
            var model = try await Self.model(mode, names)
            for key in [Key.down, .tab, .text("ж"), .end, .text("x")] {
                _ = model.press(key)
                for columns in [1, 5, 11, 12, 13, 20, 25, 26, 39, 40, 63, 64, 80, 300] {
                    for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 24, 100] {
                        model.set(height: PickerLayout.height(of: model, rows: rows))
                        let screen = PickerLayout.draw(model, columns: columns, rows: rows)
                        #expect(screen.rows.count <= rows, "\(columns)x\(rows)")
                        #expect(screen.cursor.row < rows && screen.cursor.column < columns, "\(columns)x\(rows)")
                        for row in screen.rows {
                            var end = 0
                            for span in row {
                                #expect(span.column >= end, "\(columns)x\(rows)")
                                end = span.column + TextWidth.of(span.text)
                                #expect(
                                    !span.text.unicodeScalars.contains { $0.properties.generalCategory == .control }
                                )
                            }
                            #expect(end <= columns, "\(columns)x\(rows): \(row)")
                        }
                    }
                }
            }
        }
    }

    @Test func `only rows that changed are drawn again`() async throws {
        var model = try await Self.model(.import, (0..<100).map { "file \($0).txt" })
        model.set(height: PickerLayout.height(of: model, rows: 24))
        let first = PickerLayout.draw(model, columns: 80, rows: 24)
        _ = model.press(.down)
        let second = PickerLayout.draw(model, columns: 80, rows: 24)
        #expect(zip(first.rows, second.rows).filter { $0 != $1 }.count == 2)
        #expect(second.changes(from: first).matches(of: /\u{1B}\[2K/).count == 2)
        #expect(second.changes(from: nil).matches(of: /\u{1B}\[2K/).count == 24)
    }

    @Test func `what can't be chosen is faint, and what is small stays readable`() async throws {
        let model = try await Self.model(.export, ["a.txt", "b/"])
        let screen = PickerLayout.draw(model, columns: 80, rows: 24)
        let text = screen.rows.map { $0.map(\.text).joined() }
        #expect(text[0] == "Choose a folder for a copy of my file.txt")
        #expect(text.contains { $0.hasPrefix("> b/") } && text.contains { $0.hasPrefix("Name: my file.txt") })
        #expect(screen.rows[5].first?.style == .faint, "a file, where a folder is wanted")
        let small = PickerLayout.draw(model, columns: 12, rows: 3).rows.map { $0.map(\.text).joined() }
        #expect(small.count == 3 && small[0].hasPrefix("> b/") && small[1].hasPrefix("Name: "))
        #expect(PickerLayout.draw(model, columns: 8, rows: 3).rows[0].first?.text == "Too sma…")
    }
}

extension KeyReader {
    fileprivate static func keys(_ bytes: [UInt8]) -> [Key] {
        var reader = KeyReader()
        return reader.take(bytes)
    }
}
