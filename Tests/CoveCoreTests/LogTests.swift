import CoveTestSupport
import Foundation
import Testing

@testable import CoveCore

/// What is written to the log, whatever there is to say.
struct LogTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory("log") }

    private var path: String { folder.appending("log") }

    private func text(_ suffix: String = "") -> String {
        (try? String(contentsOfFile: path + suffix, encoding: .utf8)) ?? ""
    }

    @Test func `a message is one line, whatever it has in it`() {
        let log = Log(path: path, echoToStandardError: false)
        log.error("a\n2026-01-01T00:00:00Z notice all is well\r\u{1B}[2J\u{0}\u{85}\u{2028}\u{202E}\u{61C}b")
        log.notice(String(repeating: "x", count: 1 << 20))
        let lines = text().components(separatedBy: "\n")
        #expect(lines.count == 3 && lines[2].isEmpty)
        #expect(
            lines[0].hasSuffix(
                " error a\\u{a}2026-01-01T00:00:00Z notice all is well\\u{d}\\u{1b}[2J\\u{0}\\u{85}\\u{2028}\\u{202e}\\u{61c}b"
            )
        )
        #expect(lines[1].utf8.count < 5000)
    }

    @Test func `a problem is told once, and with its number when it lasts`() {
        var filter = LogFilter()
        var now = MonotonicTime(10)
        #expect(filter.lines(for: "it fails", at: now) == ["it fails"])
        var told: [String] = []
        for _ in 0..<(24 * 3600) {
            now = now + .seconds(1)
            told += filter.lines(for: "it fails", at: now)
        }
        // After 1, 2, 4, … 32 minutes, then every hour.
        #expect((24...32).contains(told.count), "\(told.count)")
        #expect(told.first == "it fails (59 more times since it was told)")
        #expect(told.last == "it fails (3599 more times since it was told)")
        #expect(filter.lines(for: "something else", at: now) == ["something else"])
    }

    @Test func `a flood is cut off, and told`() {
        var filter = LogFilter()
        let start = MonotonicTime(10)
        var written = 0
        for number in 0..<100_000 { written += filter.lines(for: "name \(number)", at: start).count }
        #expect((1...LogFilter.burst).contains(written))
        let later = filter.lines(for: "later", at: start + .seconds(60))
        #expect(later == ["\(100_000 - written) lines were left out, for too many came at once", "later"])
        #expect(filter.lines(for: "after that", at: start + .seconds(60)) == ["after that"])
    }

    @Test func `a log with details has every line`() {
        let log = Log(path: path, echoToStandardError: false, minimum: .debug)
        for _ in 0..<3000 { log.info("again") }
        #expect(text().components(separatedBy: " info again\n").count == 3001)
    }

    @Test func `the file is kept small, and what it had is kept beside it`() throws {
        let limit: Int64 = 10_000
        let log = Log(path: path, echoToStandardError: false, minimum: .debug, sizeLimit: limit)
        // Who has it open too, as the keeper, goes on with the same file.
        let other = Log(descriptor: log.descriptor)
        for number in 0..<2000 { log.info("line \(number)") }
        other.error("the keeper's")
        let (new, old) = (text(), text(".1"))
        #expect(new.utf8.count <= 2 * limit && old.utf8.count <= 2 * limit)
        #expect(new.hasSuffix(" error the keeper's\n"))
        // Nothing is missing between the two, and nothing is twice.
        let lines = (old + new).split(separator: "\n")
        let numbers = lines.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }
        #expect(numbers.count > 200 && numbers == Array((2000 - numbers.count)..<2000))
        #expect(try System.lstat(path + ".1").st_mode & 0o777 == 0o600)
        // One that was left large begins anew.
        let next = Log(path: path, echoToStandardError: false, minimum: .info, sizeLimit: 100)
        next.info("one more")
        next.info("and another")
        #expect(text().utf8.count <= 200)
    }
}
