import CoveCore
import CoveKit
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension MountedInCompany {
    /// Files that are not here, as programs see them; the numbers are those of the acceptance checklist.
    struct PlaceholderTests {
        @Test func `48. what is changed at the source is in a query once the source was looked at, and not before`()
            async throws
        {
            try await blocking {
                let server = try TestServer.apache()
                let account = try MountedAccount(
                    options: "settle=50ms,poll=1h",
                    address: Cloud.apache.address(server.port)
                )
                try account.start()
                let query = try account.start("exec $COVE query 'FSName ENDSWITH \".txt\"' --follow --interval 0")
                defer { query.signal(SIGKILL) }
                try waitUntil("it has gathered", deadline: 60) { query.error.contains("0 found") }
                try Data("theirs".utf8).write(to: URL(fileURLWithPath: server.files + "/theirs.txt"))
                // What is done here comes after it, and is told first.
                try account.shell("echo mine > mine.txt; mkdir d; echo more > d/more.txt")
                try waitUntil("what is done here is told", deadline: 60) { query.output.contains("d/more.txt") }
                #expect(!query.output.contains("theirs.txt"))
                try account.shell("$COVE sync")
                try waitUntil("the source was looked at", deadline: 60) {
                    query.output.contains("+ \(account.path("theirs.txt"))")
                }
                query.signal(SIGINT)
                try account.settle()
                try account.end()
            }
        }

        @Test func `50. predicates of all kinds select the right items`() async throws {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms")
                try account.shell(
                    """
                    cd $src; mkdir d; printf 1234 > test.txt; printf 12345678 > Test.TXT; : > d/other.md; printf 12 > d/test.txt
                    touch -d '2001-02-03 12:00' d/other.md
                    """
                )
                try account.start()
                func found(_ predicate: String) throws -> [String] {
                    let all = try account.start("$COVE query \(Self.quoted(predicate)) | sort").wait(deadline: 60)
                    #expect(all.status == 0, "\(predicate): \(all.error)")
                    return all.output.split(separator: "\n").map { String($0.dropFirst(account.mount.count + 1)) }
                }
                let cases: [(String, [String])] = [
                    ("FSName == \"test.txt\"", ["d/test.txt", "test.txt"]),
                    ("kMDItemFSName ==[c] 'TEST.txt'", ["Test.TXT", "d/test.txt", "test.txt"]),
                    ("FSName LIKE 't?st.*'", ["d/test.txt", "test.txt"]),
                    ("FSName LIKE[c] '*.TXT' AND NOT FSName BEGINSWITH 'T'", ["d/test.txt", "test.txt"]),
                    ("FSName CONTAINS 'the'", ["d/other.md"]),
                    ("FSName ENDSWITH '.md' OR FSSize > 7 AND Kind == 'file'", ["Test.TXT", "d/other.md"]),
                    ("FSSize IN {2, 4} AND Kind == 'file'", ["d/test.txt", "test.txt"]),
                    ("FSSize BETWEEN {3, 8} AND Kind == 'file'", ["Test.TXT", "test.txt"]),
                    ("FSSize <= 2 && Kind != 'directory'", ["d/other.md", "d/test.txt"]),
                    ("FSContentChangeDate < '2002-01-01'", ["d/other.md"]),
                    ("ContentType == 'text/markdown' || Kind == 'directory'", ["d", "d/other.md"]),
                    ("!(Kind == 'file') AND IsUbiquitous == TRUE", ["d"]),
                    ("DownloadingStatus == 'Current' AND Kind == 'file' AND FSSize > 0", []),
                ]
                for (predicate, names) in cases {
                    let paths = try found(predicate)
                    #expect(paths.sorted() == names.sorted(), "\(predicate): \(paths)")
                }
                let wrong = try account.start("$COVE query 'FSName = = 3'").wait(deadline: 60)
                #expect(wrong.status == 2 && wrong.output.isEmpty && !wrong.error.isEmpty, "\(wrong)")
                #expect(try account.statistics().downloadsStarted == 0)
                try account.end()
            }
        }

        private static func quoted(_ text: String) -> String {
            "'" + text.replacingOccurrences(of: "'", with: "'\\''") + "'"
        }

        @Test func `55. programs that ask about a file that is not here get the truth, and fetch nothing`() async throws
        {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms")
                try account.shell(
                    """
                    cd $src; mkdir d; head -c 1234567 /dev/zero > d/a.bin; touch -d '2001-02-03 04:05:06' d/a.bin; chmod 640 d/a.bin
                    """
                )
                try account.start()
                let told = try account.shell(
                    """
                    stat -c '%s %Y %F %b' d/a.bin
                    ls -l --time-style=+%s d/a.bin | cut -d' ' -f1,5-
                    find . -size +1000k -newermt 2001-02-01 ! -newermt 2001-02-05 -perm 640
                    getfattr -d -m - d/a.bin
                    getfattr --only-values -n user.cove.downloading-status d/a.bin; echo
                    getfattr --only-values -n user.cove.percent-downloaded d/a.bin; echo
                    du -b --apparent-size d/a.bin
                    """
                )
                let time = try account.shell("stat -c %Y $src/d/a.bin").dropLast()
                #expect(
                    told.split(separator: "\n") == [
                        "1234567 \(time) regular file 1", "-rw-r----- 1234567 \(time) d/a.bin", "./d/a.bin",
                        "NotDownloaded", "0", "1234567\td/a.bin",
                    ]
                )
                #expect(try account.statistics().downloadsStarted == 0)
                // It is all zeros, and no hole to any copier.
                for copy in [
                    "tar -Scf - d | tar -xf - -C $tmp/c", "cp -r --sparse=auto d $tmp/c/", "rsync -rS d $tmp/c/",
                ] {
                    try account.shell(
                        "$COVE evict d; rm -rf $tmp/c; mkdir $tmp/c; \(copy); cmp $tmp/c/d/a.bin $src/d/a.bin"
                    )
                }
                #expect(try account.statistics().bytesDownloaded == 3 * 1_234_567)
                try account.end()
            }
        }

        @Test func `56. the first read fetches, the second does not, and two first ones at once are one download`()
            async throws
        {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms,simulate-latency=200ms")
                try account.source.save("a", Array("some text\n".utf8))
                var random = SeededGenerator(seed: 56)
                try account.source.save("b", random.bytes(3_000_000))
                try account.start()
                #expect(try account.shell("cat a") == "some text\n")
                #expect(try account.statistics().downloadsStarted == 1)
                #expect(try account.shell("cat a a") == "some text\nsome text\n")
                #expect(try account.statistics().downloadsStarted == 1)
                try account.shell("cat b > $tmp/1 & cat b > $tmp/2; wait $!; cmp $tmp/1 $src/b; cmp $tmp/2 $src/b")
                let statistics = try account.statistics()
                #expect(statistics.downloadsStarted == 2 && statistics.bytesDownloaded == 3_000_010)
                try account.end()
            }
        }

        @Test
        func `58. a file that is not here is read of and tagged under claims without a download, and the tag goes on`()
            async throws
        {
            let (first, second) = try await blocking {
                let first = try MountedAccount(options: "settle=50ms")
                try first.source.save("a.txt", Array("text".utf8))
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(first.source.path)")
                try first.start()
                try second.start()
                return (first, second)
            }
            let url = URL(fileURLWithPath: first.path("a.txt"))
            let coordinator = FileCoordinator()
            let size = try await coordinator.coordinate(
                readingItemAt: url,
                options: .immediatelyAvailableMetadataOnly
            ) { url in
                try await PromisedItem.resourceValues(ofItemAt: url, forKeys: [.fileSizeKey])[.fileSizeKey]
            }
            #expect(size == .number(4))
            try await coordinator.coordinate(writingItemAt: url, options: .contentIndependentMetadataOnly) { url in
                _ = try Command.run("setfattr", ["-n", "user.cove.tags", "-v", "red", url.path])
            }
            try await blocking {
                #expect(try first.info("a.txt").state == "dataless")
                try first.settle()
                try waitUntil("the other device has the tag", deadline: 60) {
                    try second.settle()
                    let tags = try second.start("getfattr --only-values -n user.cove.tags a.txt").wait(deadline: 30)
                    return tags.output == "red"
                }
                for account in [first, second] {
                    #expect(try account.statistics().downloadsStarted == 0)
                    #expect(try account.info("a.txt").state == "dataless")
                    try account.end()
                }
            }
        }

        @Test func `60. a download is asked for and comes, and what is in use or not sent is not evicted`() async throws
        {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms,simulate-latency=500ms")
                var random = SeededGenerator(seed: 60)
                try account.source.save("a", random.bytes(400_000))
                try account.start()
                try account.shell("ls")
                // The command is back before the first byte could be here.
                #expect(try account.shell("$COVE download a; stat -c %b a") == "1\n")
                try waitUntil("it is here", deadline: 60) { try account.info("a").state == "materialized" }
                #expect(
                    try account.shell("test $(stat -c %b a) -ge 782; $COVE evict a; stat -c '%b %s' a") == "1 400000\n"
                )
                func refused(_ script: String, _ reason: String) throws {
                    let result = try account.start(script).wait(deadline: 60)
                    #expect(result.status == 1 && result.error.contains(reason), "\(script): \(result)")
                }
                try account.shell("cat a > /dev/null")
                try refused("exec 3< a; $COVE evict a", "a program has it open")
                try account.shell("$COVE pause; echo new > b")
                try refused("$COVE evict b", "it is only on this device")
                try account.shell("$COVE resume")
                try account.settle()
                // So does a document that a program presents and has not closed.
                try account.shell("printf text > doc; $COVE sync --wait")
                let gate = try account.gate("go")
                let driver = try account.driver("open \(account.path("doc"))", "gate \(gate.path)", "close")
                defer { driver.signal(SIGKILL) }
                try waitUntil("it is open", deadline: 60) { driver.output.contains("open: text") }
                try refused("$COVE evict doc", "a program presents it")
                try gate.open(for: driver)
                try waitUntil("it is closed", deadline: 60) { driver.output.contains("closed") }
                #expect(try account.shell("$COVE evict doc; stat -c '%b %s' doc") == "1 4\n")
                try account.end()
            }
        }

        @Test func `61. without the source a file that is here opens, another is unreachable until it is back`()
            async throws
        {
            try await blocking {
                let server = try TestServer.apache()
                let line = try FaultProxy(to: server.port)
                for name in ["here", "there"] {
                    try Data(name.utf8).write(to: URL(fileURLWithPath: server.files + "/" + name))
                }
                let account = try MountedAccount(
                    options: "settle=50ms,poll=1s,stall-limit=3s",
                    address: Cloud.apache.address(line.port)
                )
                try account.start()
                #expect(try account.shell("ls; cat here") == "here\nthere\nhere")
                line.set { $0.refuses = true }
                line.dropAll()
                try waitUntil("it is known to be away", deadline: 60) {
                    _ = try account.start("$COVE sync --timeout 1").wait(deadline: 60)
                    return try account.cove("status").contains("offline")
                }
                #expect(try account.shell("cat here; echo; stat -c %s there") == "here\n5\n")
                let refused = try account.start("cat there").wait(deadline: 60)
                #expect(refused.status == 1 && refused.error.contains("No route to host"), "\(refused)")
                line.set { $0.refuses = false }
                try account.shell("$COVE sync")
                #expect(try account.shell("cat there") == "there")
                try account.end()
            }
        }
    }
}
