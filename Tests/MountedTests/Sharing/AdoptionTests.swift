import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Taking over the files that another program has kept of the same cloud.
    struct AdoptionTests {
        private struct Report: Decodable {
            var adopted: Int
            var adoptedBytes: Int
            var present: Int
            var unverified: [String]
            var differing: [String]
            var onlyThere: [String]
            var added: [String]
            var failures: [String: String]
        }

        /// A cloud that a test has filled through another device, whose files are in `$tmp/old` of the device that is given.
        private func expectAdoption(
            _ address: String?,
            hasChecksums: Bool,
            _ body: @escaping (MountedAccount) throws -> Void = { _ in }
        ) throws {
            let shared = try TemporaryDirectory("adoption")
            let source = address ?? "dir://\(shared.path)"
            let first = try MountedAccount(options: "settle=50ms", address: source)
            try first.start()
            try first.shell(
                """
                mkdir -p d/e; printf one > f; printf two > d/g; head -c 3000000 /dev/urandom > d/e/big; : > empty
                printf x > 'd/ä (1)'; touch -d '2020-01-02 03:04:05' f d/g d/e/big 'd/ä (1)'
                """
            )
            try first.settle()
            let account = try MountedAccount(options: "settle=50ms", address: source)
            try account.start()
            try first.shell("cp -a . \(account.scratch.appending("old"))")
            try first.end()
            let before = try account.shell(
                "cd $tmp/old; find . -printf '%p %s %m %T@\\n' | sort; md5sum f d/g d/e/big"
            )
            let trial = try account.cove("adopt $tmp/old . --dry-run", as: Report.self)
            #expect(trial.adopted == (hasChecksums ? 4 : 0) && trial.failures.isEmpty, "\(trial)")
            #expect(try account.info("d/e/big").state == "dataless")
            let report = try account.cove("adopt $tmp/old .", as: Report.self)
            #expect(report.adopted == trial.adopted && report.unverified.count == (hasChecksums ? 0 : 4), "\(report)")
            #expect(report.onlyThere.isEmpty && report.differing.isEmpty && report.failures.isEmpty, "\(report)")
            if hasChecksums {
                #expect(report.adoptedBytes == 3_000_007)
                for name in ["f", "d/g", "d/e/big", "d/ä (1)"] {
                    let item = try account.info(name)
                    #expect(item.state == "materialized" && !item.isDirty, "\(item)")
                }
            }
            try body(account)
            // Again there is nothing left to do.
            let again = try account.cove("adopt $tmp/old .", as: Report.self)
            #expect(again.adopted == 0 && again.present == 5 && again.unverified.isEmpty, "\(again)")
            try account.shell("for f in f d/g d/e/big 'd/ä (1)'; do cmp \"$f\" \"$tmp/old/$f\"; done")
            try account.settle()
            let statistics = try account.statistics()
            #expect(statistics.downloadsStarted == 0 && statistics.bytesDownloaded == 0)
            #expect(statistics.bytesUploaded == 0 && statistics.dirtyItems == 0)
            #expect(
                try account.shell("cd $tmp/old; find . -printf '%p %s %m %T@\\n' | sort; md5sum f d/g d/e/big")
                    == before
            )
            // What was taken is dropped and fetched again like anything else, and outlives the daemon.
            try account.killDaemon()
            try account.shell("cmp d/e/big $tmp/old/d/e/big; $COVE evict d; cmp d/e/big $tmp/old/d/e/big")
            // The kernel hears of an eviction a moment later, and may have the bytes until then.
            try waitUntil("it is fetched", deadline: 30) {
                try account.shell("cat d/e/big > /dev/null")
                return try account.statistics().bytesDownloaded >= 3_000_000
            }
            // What is as long and as old need not be the same.
            try account.shell(
                "printf six > f; printf 6ix > $tmp/old/f; touch -r f $tmp/old/f; ln -s one l; ln -s two $tmp/old/l"
            )
            let other = try account.cove("adopt $tmp/old .", as: Report.self)
            #expect(other.differing.sorted() == ["f", "l"], "\(other)")
            #expect(try account.cove("adopt $tmp/old . --trust-dates", as: Report.self).differing == ["l"])
            try account.end()
        }

        @Test func `files of a folder, a bucket and a cloud with checksums are taken over without a download`()
            async throws
        {
            try await blocking {
                try expectAdoption(nil, hasChecksums: true)
                let server = try TestServer.seaweedFS()
                try expectAdoption(Cloud.s3Address(server.port), hasChecksums: true)
                let cloud = try ScriptedCloud()
                try expectAdoption(cloud.source, hasChecksums: true)
            }
        }

        @Test func `where there are no checksums nothing is taken unless dates are trusted`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                cloud.rewrite { request, reply in
                    guard request.method == "PROPFIND" else { return }
                    let text = String(decoding: reply.body, as: UTF8.self)
                    // As long as before.
                    reply.body = Array(text.replacingOccurrences(of: "oc:checksums", with: "oc:checkzumz").utf8)
                }
                try expectAdoption(cloud.source, hasChecksums: false) { account in
                    try account.shell("touch -d '2021-01-01' $tmp/old/d/g")
                    let report = try account.cove("adopt $tmp/old . --trust-dates", as: Report.self)
                    #expect(report.adopted == 3 && report.unverified == ["d/g"], "\(report)")
                    try account.shell("touch -d '2020-01-02 03:04:05' $tmp/old/d/g")
                    #expect(try account.cove("adopt $tmp/old . --trust-dates", as: Report.self).adopted == 1)
                }
            }
        }

        @Test func `what differs and what only the folder has stays there, and comes in when it is asked for`()
            async throws
        {
            try await blocking {
                let shared = try TemporaryDirectory("adoption")
                for (name, text) in [("same", "same"), ("size", "longer"), ("bytes", "abc"), ("here", "mine")] {
                    try Data(text.utf8).write(to: URL(fileURLWithPath: shared.appending(name)))
                }
                let account = try MountedAccount(options: "settle=50ms", address: "dir://\(shared.path)")
                try account.start()
                try account.shell(
                    """
                    ls; mkdir -p $tmp/old/new/deep; cd $tmp/old; printf same > same; printf short > size; printf xyz > bytes
                    printf in > new/deep/file; printf only > only; : > .sync_1234.db; : > .owncloudsync.log; mkfifo pipe
                    printf changed > $mnt/edited; printf other > edited
                    """
                )
                let report = try account.cove("adopt $tmp/old .", as: Report.self)
                #expect(report.adopted == 1 && Set(report.differing) == ["size", "bytes", "edited"], "\(report)")
                #expect(
                    Set(report.onlyThere) == ["new", "only", "pipe"] && report.added.isEmpty && report.failures.isEmpty
                )
                #expect(try account.shell("ls; cat size bytes") == "bytes\nedited\nhere\nsame\nsize\n" + "longerabc")
                #expect(
                    try account.cove("adopt $tmp/old").contains("1 here already, 0 without a checksum, 3 different")
                )
                // Twice, as after a break: the second time there is nothing to bring in.
                for round in 1...2 {
                    let result = try account.start("$COVE adopt $tmp/old . --add --json").wait(deadline: 60)
                    let added = try JSONDecoder().decode(Report.self, from: Data(result.output.utf8))
                    #expect(result.status == 1 && Array(added.failures.keys) == ["pipe"], "\(added)")
                    #expect(added.added.count == (round == 1 ? 5 : 0), "\(added)")
                }
                #expect(try account.shell("cat new/deep/file only") == "inonly")
                #expect(
                    try account.shell("cat size\\ \\(conflict* bytes\\ \\(conflict* edited\\ \\(conflict*")
                        == "shortxyzother"
                )
                #expect(try account.shell("cat size bytes edited") == "longerabcchanged")
                try account.settle()
                #expect(
                    try account.shell(
                        "ls -A $tmp/old | wc -l; ls '\(shared.path)'/only '\(shared.path)'/new/deep/file | wc -l"
                    ) == "9\n2\n"
                )
                try account.end()
            }
        }

        @Test func `a folder in an account, one that is none and a full cache are refused`() async throws {
            try await mounted(options: "cache-size=1M") { source in
                try source.save("big", [UInt8](repeating: 7, count: 2_000_000))
            } _: { account in
                try account.shell("ls; mkdir d $tmp/old; cp $src/big $tmp/old/big")
                try account.expectRefusal(
                    "$COVE adopt d .",
                    "d: it is in an account itself; name the folder of the other program"
                )
                try account.expectRefusal(
                    "$COVE adopt $tmp/none .",
                    "$tmp/none: No such file or directory; check the path"
                )
                try account.expectRefusal("$COVE adopt $tmp/old big", "big: it is no folder; name one")
                let result = try account.start("$COVE adopt $tmp/old . --json").wait(deadline: 60)
                #expect(result.status == 1 && result.output.contains("the cache's limit would be exceeded"))
                #expect(try account.info("big").state == "dataless")
            }
        }
    }
}
