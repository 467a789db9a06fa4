import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Coordinators and presenters of several processes; the numbers are those of the acceptance checklist.
    struct KitCoordinatorTests {
        @Test func `9. processes of one purpose do not wait for each other`() async throws {
            try await mounted { source in
                try source.save("f", Array("text".utf8))
            } _: { account in
                let (file, gate) = (account.path("f"), try account.gate("go"))
                let holder = try account.driver("coordinator io.cove.test", "hold \(file) \(gate)")
                try holder.says("holding \(file)")
                let friend = try account.driver("coordinator io.cove.test", "write \(file) two", "coordinator again")
                #expect(try friend.finish().first == "wrote \(file)")
                let other = try account.driver("write \(file) three")
                try account.waitForClaims(1)
                #expect(try account.driver("coordinator").finish().isEmpty)
                try gate.open(for: holder)
                #expect(try holder.finish().last == "released")
                #expect(try other.finish() == ["wrote \(file)"])
                #expect(try account.shell("cat f") == "three")
            }
        }

        @Test func `who has a file open is waited for, passed over or refused`() async throws {
            try await mounted { account in
                try account.shell("mkdir P.rtfd; echo old > P.rtfd/log")
                let (package, gates) = (account.path("P.rtfd"), try ["one", "two"].map { try account.gate($0) })
                // It never rests.
                let logger = try account.start(
                    """
                    exec bash -c 'exec 3>> P.rtfd/log; touch $tmp/opened
                        until [ -e $tmp/stop ]; do echo line >&3; sleep 0.2; done'
                    """
                )
                try waitUntil("it is open") { try account.shell("ls $tmp").contains("opened") }
                let refused = try account.driver("policy fail", "hold \(package) \(gates[0])").finish()
                #expect(refused.count == 1 && refused[0].hasPrefix("failed: \(EBUSY) "), "\(refused)")
                let ignoring = try account.driver("policy ignore", "hold \(package) \(gates[0])")
                try ignoring.says("holding \(package)")
                try ignoring.says("open: bash \(logger.process) \(account.path("P.rtfd/log"))")
                try gates[0].open(for: ignoring)
                #expect(try ignoring.finish().last == "released")
                let waiter = try account.driver("hold \(package) \(gates[1])")
                try waitUntil("it waits for the logger") {
                    try account.cove("claims --state $STATE").contains(
                        "while bash (\(logger.process)) writes P.rtfd/log"
                    )
                }
                try account.shell("touch $tmp/stop")
                try waiter.says("holding \(package)")
                try gates[1].open(for: waiter)
                #expect(try waiter.finish() == ["holding \(package)", "released"])
            }
        }

        @Test func `10. a waiting writer follows a moved file, unless it replaces what is there`() async throws {
            try await mounted { source in
                try source.save("old", Array("text".utf8))
            } _: { account in
                let (old, new) = (account.path("old"), account.path("new"))
                let gates = try ["one", "two", "three"].map { try account.gate($0) }
                let mover = try account.driver("move \(old) \(new) \(gates[0])")
                try mover.says("holding")
                let follower = try account.driver("hold \(old) \(gates[1])")
                try account.waitForClaims(1)
                let replacer = try account.driver("hold \(old) \(gates[2]) forReplacing")
                try account.waitForClaims(2)
                try gates[0].open(for: mover)
                try follower.says("holding \(new)")
                try gates[1].open(for: follower)
                try replacer.says("holding \(old)")
                try gates[2].open(for: replacer)
                #expect(try mover.finish().last == "moved")
                _ = try (follower.finish(), replacer.finish())
                try account.expectSame()
            }
        }

        @Test func `11, 13. a reader has another process save, which does not wait for the reader`() async throws {
            try await mounted { source in
                try source.save("f", Array("old".utf8))
            } _: { account in
                let (file, gate) = (account.path("f"), try account.gate("go"))
                let presenter = try account.driver("present \(file)", "unsaved saved", "gate \(gate)", "unpresent")
                try presenter.says("presenting")
                #expect(try account.driver("read \(file)").finish() == ["read: saved"])
                #expect(try account.driver("read \(file) withoutChanges").finish() == ["read: saved"])
                try waitUntil("it has the file again") { presenter.lines.filter { $0 == "> reacquired" }.count == 2 }
                #expect(
                    presenter.lines.filter { $0.hasPrefix("> re") || $0 == "> save" }
                        == ["> reader", "> save", "> reacquired", "> reader", "> reacquired"]
                )
                try gate.open(for: presenter)
                #expect(try presenter.finish().last == "removed")
            }
        }

        @Test func `one that writes before it lets another program in does so before that`() async throws {
            try await mounted { source in
                try source.save("f", Array("old".utf8))
            } _: { account in
                let (file, gate) = (account.path("f"), try account.gate("go"))
                let presenter = try account.driver(
                    "present \(file) relinquishToReader relinquishToWriter",
                    "unsaved own",
                    "gate \(gate)",
                    "unpresent"
                )
                try presenter.says("presenting")
                // Sooner than presenters that say nothing are passed over.
                let read = try account.shell(
                    "$COVE coordinate -w 20 --writing f -- sh -c 'cat f; printf new > f'",
                    deadline: 25
                )
                #expect(read == "own")
                try waitUntil("it has the file again: \(presenter.lines)") { presenter.lines.contains("> reacquired") }
                try gate.open(for: presenter)
                #expect(try presenter.finish() == ["presenting", "> writer", "> reacquired", "removed"])
                #expect(try account.shell("cat f") == "new")
            }
        }

        @Test func `12. a presenter hears nothing of its own writing, others do`() async throws {
            try await mounted { source in
                try source.save("f", Array("old".utf8))
            } _: { account in
                let (file, gates) = (account.path("f"), try ["one", "two"].map { try account.gate($0) })
                // Only what is here can be kept as a version.
                try account.shell("cat f")
                let other = try account.driver("present \(file)", "gate \(gates[1])")
                try other.says("presenting")
                let own = try account.driver(
                    "present \(file) relinquishToWriter didChange didGainVersion",
                    "coordinator presenting",
                    "write \(file) own",
                    "gate \(gates[0])"
                )
                try own.says("> gained")
                try gates[0].open(for: own)
                #expect(try own.finish().sorted() == ["> gained", "presenting", "wrote \(file)"])
                try other.says("> changed")
                #expect(
                    other.lines.filter { !$0.contains("gained") }.prefix(4)
                        == ["presenting", "> writer", "> reacquired", "> changed"]
                )
                try gates[1].open(for: other)
            }
        }

        @Test func `14. a presenter that can't save fails the reader`() async throws {
            try await mounted { source in
                try source.save("f", Array("old".utf8))
            } _: { account in
                let (file, gate) = (account.path("f"), try account.gate("go"))
                let presenter = try account.driver("present \(file)", "refuse no room left", "gate \(gate)")
                try presenter.says("presenting")
                #expect(try account.driver("read \(file)").finish() == ["failed: 28 no room left"])
                try gate.open(for: presenter)
            }
        }

        @Test func `15, 16. a deletion and a move are told to those inside and above`() async throws {
            try await mounted { source in
                try source.makeDirectory("top")
                try source.makeDirectory("top/old")
                try source.save("top/old/f", Array("text".utf8))
            } _: { account in
                try account.shell("find . > $tmp/all")
                let gates = try ["one", "two", "three"].map { try account.gate($0) }
                let inside = try account.driver(
                    "present \(account.path("top/old/f"))",
                    "gate \(gates[0])",
                    "presented"
                )
                let moved = try account.driver("present \(account.path("top/old")) didMove", "gate \(gates[1])")
                let above = try account.driver(
                    "present \(account.path("top")) subitemDidMove accommodateSubitemDeletion",
                    "gate \(gates[2])"
                )
                for presenter in [inside, moved, above] { try presenter.says("presenting") }
                let mover = try account.driver("move \(account.path("top/old")) \(account.path("top/new"))")
                #expect(try mover.finish() == ["moved"])
                try inside.says("> moved \(account.path("top/new/f"))")
                try moved.says("> moved \(account.path("top/new"))")
                try above.says("> subitem moved old new")
                #expect(try account.driver("delete \(account.path("top/new/f"))").finish() == ["deleted"])
                try inside.says("> deletion")
                try above.says("> subitem deletion f")
                for (gate, one) in zip(gates, [inside, moved, above]) { try gate.open(for: one) }
                #expect(try inside.finish().contains("at \(account.path("top/new/f"))"))
                try account.expectSame()
            }
        }

        @Test func `17. who let a writer in has the file again first, and then hears of the change`() async throws {
            try await mounted { source in
                try source.makeDirectory("d")
                try source.save("d/f", Array("old".utf8))
            } _: { account in
                try account.shell("cat d/f")
                let gates = try ["one", "two"].map { try account.gate($0) }
                let presenter = try account.driver("present \(account.path("d/f"))", "gate \(gates[0])")
                let above = try account.driver("present \(account.path("d")) subitemDidAppear", "gate \(gates[1])")
                for one in [presenter, above] { try one.says("presenting") }
                _ = try account.driver("write \(account.path("d/f")) new", "write \(account.path("d/g")) made").finish()
                try presenter.says("> changed")
                #expect(
                    presenter.lines.filter { !$0.contains("gained") }
                        == ["presenting", "> writer", "> reacquired", "> changed"]
                )
                try above.says("> appeared g")
                for (gate, one) in zip(gates, [presenter, above]) { try gate.open(for: one) }
                try account.expectSame()
            }
        }

        @Test func `20. cancel ends a waiting call, and later ones do nothing`() async throws {
            try await mounted { source in
                try source.save("f", Array("text".utf8))
            } _: { account in
                let (file, gates) = (account.path("f"), try ["one", "two"].map { try account.gate($0) })
                let holder = try account.driver("hold \(file) \(gates[0])")
                try holder.says("holding \(file)")
                let waiting = try account.driver("cancel \(file) \(gates[1])", "read \(file)")
                try account.waitForClaims(1)
                try gates[1].open(for: waiting)
                #expect(try waiting.finish().map { $0.prefix(11) } == ["failed: 125", "failed: 125"])
                try account.waitForClaims(0)
                try gates[0].open(for: holder)
                #expect(try holder.finish().last == "released")
            }
        }

        @Test func `21. prepare asks once for a hundred files`() async throws {
            try await mounted { source in
                try source.makeDirectory("d")
                for number in 0..<100 { try source.save("d/\(number)", Array("text".utf8)) }
            } _: { account in
                try account.shell("cat d/* > $tmp/all")
                let gate = try account.gate("go")
                let presenter = try account.driver("present \(account.path("d/7"))", "gate \(gate)")
                try presenter.says("presenting")
                let paths = (0..<100).map { account.path("d/\($0)") }.joined(separator: " ")
                let reader = try account.driver("prepare \(paths)")
                #expect(try reader.finish() == ["prepared", "read 100"])
                try waitUntil("it has the file again") { presenter.lines.contains("> reacquired") }
                #expect(presenter.lines.filter { $0 == "> save" }.count == 1)
                try gate.open(for: presenter)
            }
        }

        @Test func `39. a coordinated move moves`() async throws {
            try await mounted { source in
                try source.save("old", Array("text".utf8))
            } _: { account in
                let mover = try account.driver("move \(account.path("old")) \(account.path("new"))")
                #expect(try mover.finish() == ["moved"])
                #expect(try account.shell("ls; cat new") == "new\ntext")
                try account.expectSame()
            }
        }

        @Test func `40. processes that want A and B, and B and A, lose no update`() async throws {
            try await mounted { source in
                for name in ["a", "b"] { try source.save(name, []) }
            } _: { account in
                let (a, b) = (account.path("a"), account.path("b"))
                let racers = try [account.driver("race \(a) \(b) 200"), account.driver("race \(b) \(a) 200")]
                for racer in racers { #expect(try racer.finish() == ["raced"]) }
                #expect(try account.shell("sort a | uniq -c | awk '{print $1}'; cmp a b") == "200\n200\n")
                try account.expectSame()
            }
        }

        @Test func `41. the tutorial's two readings for uploading`() async throws {
            try await mounted { source in
                try source.save("one", Array("1".utf8))
            } _: { account in
                let (one, two) = (account.path("one"), account.path("two"))
                let missing = try account.driver("upload \(one) \(two)").finish()
                #expect(missing.count == 1 && missing[0].hasPrefix("failed: 2 "))
                try account.shell("printf 2 > two")
                let both = try account.driver("upload \(one) \(two)").finish()
                #expect(both == ["snapshot: 1", "snapshot: 2", "left: 0"])
            }
        }

        @Test func `42. nested claims that wait for each other fail, over two accounts too`() async throws {
            try await mounted { one in
                try await mounted { two in
                    for account in [one, two] { try account.shell("touch a b") }
                    let outside = one.scratch.appending("c")
                    try one.shell("touch $tmp/c")
                    let pairs = [
                        (one.path("a"), one.path("b")), (one.path("a"), two.path("a")), (two.path("b"), one.path("b")),
                        (one.path("a"), outside),
                    ]
                    for (first, second) in pairs {
                        let said = try one.driver("circle \(first) \(second)").finish()
                        #expect(said == ["both, failed: 35"], "\(first) \(second)")
                    }
                }
            }
        }

        @Test func `42. nested claims of two processes that wait for each other fail`() async throws {
            try await mounted { source in
                for name in ["a", "b"] { try source.save(name, []) }
            } _: { account in
                let (a, b) = (account.path("a"), account.path("b"))
                let gates = try ["one", "two"].map { try account.gate($0) }
                let first = try account.driver("nested \(a) \(b) \(gates[0])")
                let second = try account.driver("nested \(b) \(a) \(gates[1])")
                for one in [first, second] { try one.says("holding") }
                try gates[0].open(for: first)
                try account.waitForClaims(1)
                try gates[1].open(for: second)
                let failed = try second.finish()
                #expect(failed.first == "holding" && failed.last?.hasPrefix("failed: 35 ") == true)
                #expect(try first.finish() == ["holding", "both", "released"])
            }
        }
    }
}
