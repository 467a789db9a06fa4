import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Programs that rename a file to a backup and put another one in its place: the document is what has the name.
    struct CoordinationBackupTests {
        enum Save: String, CaseIterable {
            case sed = "sed -i.orig s/old/new/ F"
            case copy = "cp -b -S .orig $tmp/new F"
            case install = "install -b -S .orig $tmp/new F"
            case patch = "patch -s -b -z .orig F $tmp/patch"
            case rotation = "mv F F.1; touch F; cat $tmp/new >> F"
            case link = "mv F F.1; cp $tmp/new T; mv T F"
            /// Longer than presenters are kept from hearing of a move.
            case slow = "mv F F.1; sleep 3; touch F; cat $tmp/new >> F"

            var script: String { rawValue }
        }

        private static func saving(
            _ save: Save,
            settle: String = "200ms",
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: "settle=\(settle),open-timeout=60") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo new > $tmp/new; diff -u F $tmp/new > $tmp/patch || true")
                try account.settle()
                try body(account)
                try account.shell("touch $tmp/stop")
            }
        }

        @Test func `a backup of a package leaves the claim of a file in it at its name`() async throws {
            try await Self.saving(.sed) { account in
                try account.shell("mkdir P.rtfd; echo old > P.rtfd/F")
                let holder = try account.start(
                    """
                    $COVE coordinate --writing P.rtfd/F -- bash -c 'mv P.rtfd P2.rtfd; mkdir P.rtfd; echo half > P.rtfd/F
                        touch $tmp/held; until [ -e $tmp/end ]; do sleep 0.01; done; echo whole >> P.rtfd/F'
                    """
                )
                try account.waitForMark("held")
                let reader = try account.start("cat P.rtfd/F")
                try account.waitForWaiting(1)
                #expect(try account.shell("cat P2.rtfd/F") == "old\n")
                try account.shell("touch $tmp/end")
                #expect(try reader.wait(deadline: 60).output == "half\nwhole\n")
                #expect(try holder.wait(deadline: 60).status == 0)
            }
        }

        @Test(arguments: Save.allCases) func `a backup leaves claims and those who wait at the name`(
            save: Save
        ) async throws {
            try await Self.saving(save) { account in
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- bash -c 'touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done
                        \(save.script); touch $tmp/saved; until [ -e $tmp/end ]; do sleep 0.01; done; echo whole >> F'
                    """
                )
                try account.waitForMark("held")
                let early = try account.start("cat F")
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                try account.waitForMark("saved")
                let late = try account.start("cat F")
                let writer = try account.start("$COVE coordinate --writing F -- sh -c 'cat F; echo more >> F'")
                try account.waitForWaiting(3)
                let claims = try account.cove("claims --state $STATE").split(separator: "\n")
                #expect(claims.allSatisfy { $0.contains("ing F") }, "\(claims)")
                try account.shell("touch $tmp/end")
                for command in [early, late, writer] {
                    let result = try command.wait(deadline: 60)
                    #expect(result.output.hasPrefix("new\nwhole\n"), "\(result.error)")
                }
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F; cat F.orig F.1 2> /dev/null || true") == "new\nwhole\nmore\nold\n")
            }
        }

        @Test func `a backup to the name that the source has for the document leaves claims at the name`() async throws
        {
            try await Self.saving(.rotation) { account in
                // The first backup gets to the source, what takes the name afterwards does not.
                try account.shell("mv F F.1")
                try account.settle()
                try account.shell("$COVE pause --state $STATE; echo newer > F")
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- bash -c 'mv F F.1; touch $tmp/held
                        until [ -e $tmp/go ]; do sleep 0.01; done; cat $tmp/new > F'
                    """
                )
                try account.waitForMark("held")
                let late = try account.start("$COVE coordinate --writing F -- sh -c 'cat F; echo more >> F'")
                try account.waitForWaiting(1)
                let claims = try account.cove("claims --state $STATE").split(separator: "\n")
                #expect(claims.contains { $0.contains("waiting") }, "\(claims)")
                try account.shell("touch $tmp/go")
                let result = try late.wait(deadline: 60)
                #expect(result.output == "new\n", "\(result.error)")
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F F.1; $COVE resume --state $STATE") == "new\nmore\nnewer\n")
                try account.settle()
                try account.expectSame()
            }
        }

        @Test func `a claim stays with a file that is moved away and leaves a link to itself`() async throws {
            try await Self.saving(.rotation) { account in
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- bash -c 'mkdir store; mv F store/F; ln -s store/F F; echo part > F
                        touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done; cat $tmp/new > F'
                    """
                )
                try account.waitForMark("held")
                let late = try account.start("$COVE coordinate --writing F -- sh -c 'cat F; echo more >> F'")
                let reader = try account.start("cat F")
                try account.waitForWaiting(2)
                try account.shell("touch $tmp/go")
                #expect(try reader.wait(deadline: 60).output.hasPrefix("new\n"))
                let result = try late.wait(deadline: 60)
                #expect(result.output == "new\n", "\(result.error)")
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("readlink F; cat store/F") == "store/F\nnew\nmore\n")
            }
        }

        @Test func `the holder of a file that is moved away for a link has what that leads to`() async throws {
            try await Self.saving(.rotation) { account in
                try account.shell("echo real > real")
                try account.settle()
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- bash -c 'mv F F.1; ln -s real F; echo part > F; touch $tmp/held
                        until [ -e $tmp/go ]; do sleep 0.01; done; cat $tmp/new > F'
                    """
                )
                try account.waitForMark("held")
                let others = try [
                    "cat F", "$COVE coordinate --writing F -- cat F", "$COVE coordinate --reading F.1 -- cat F",
                ]
                .map { try account.start($0) }
                try account.waitForWaiting(3)
                try account.shell("touch $tmp/go")
                for command in others { #expect(try command.wait(deadline: 60).output == "new\n") }
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F.1 real") == "old\nnew\n")
            }
        }

        @Test(arguments: ["ln -s real T; mv -T T F", "rm F; ln -s real F", "ln -sf real F"])
        func `the holder of a file that gives way to a link has what that leads to`(replacing: String) async throws {
            try await Self.saving(.rotation) { account in
                try account.shell("echo real > real")
                try account.settle()
                let (presenter, log) = try account.startPresenter("F")
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- bash -c 'touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done
                        \(replacing); echo part > F; touch $tmp/linked
                        until [ -e $tmp/end ]; do sleep 0.01; done; cat $tmp/new > F'
                    """
                )
                try account.waitForMark("held")
                let writing = "$COVE coordinate --writing F -- sh -c 'cat F; echo more >> F'"
                let early = try account.start(writing)
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                try account.waitForMark("linked")
                let others = [
                    try account.start("cat F"), try account.start("cat real"), try account.start(writing),
                    try account.start(writing.replacingOccurrences(of: "F", with: "real")),
                ]
                try account.waitForWaiting(5)
                try account.shell("touch $tmp/end")
                for command in [early] + others {
                    let result = try command.wait(deadline: 60)
                    #expect(result.output.hasPrefix("new\n"), "\(result)")
                }
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("readlink F; cat real") == "real\nnew\nmore\nmore\nmore\n")
                let left = try account.cove("claims --state $STATE").split(separator: "\n")
                #expect(left.allSatisfy { !$0.hasPrefix("c") }, "\(left)")
                let told = try log().count
                try account.shell("echo last >> real")
                try waitUntil("what the link leads to is presented: \(try log())") {
                    try log().dropFirst(told).contains { $0.hasPrefix("didChange") }
                }
                presenter.signal(SIGTERM)
            }
        }

        @Test(arguments: ["P.rtfd"]) func `a backup of a package leaves claims and presenters at the name`(
            name: String
        ) async throws {
            try await Self.saving(.rotation) { account in
                try account.shell("mkdir \(name); echo old > \(name)/part")
                try account.settle()
                let (presenter, log) = try account.startPresenter(name)
                let holder = try account.start(
                    """
                    $COVE coordinate --writing \(name) -- bash -c 'touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done
                        mv \(name) backup; mkdir \(name); echo new > \(name)/part; touch $tmp/saved
                        until [ -e $tmp/end ]; do sleep 0.01; done; echo whole >> \(name)/part'
                    """
                )
                try account.waitForMark("held")
                let early = try account.start("$COVE coordinate --writing \(name) -- cat \(name)/part")
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                try account.waitForMark("saved")
                let late = try account.start("$COVE coordinate --writing \(name) -- cat \(name)/part")
                try account.waitForWaiting(2)
                let claims = try account.cove("claims --state $STATE").split(separator: "\n")
                #expect(claims.allSatisfy { !$0.contains("backup") }, "\(claims)")
                try account.shell("touch $tmp/end")
                for command in [early, late] {
                    let result = try command.wait(deadline: 60)
                    #expect(result.output == "new\nwhole\n", "\(result.error)")
                }
                #expect(try holder.wait(deadline: 60).status == 0)
                let told = try log().count
                try account.shell("echo more > \(name)/other")
                try waitUntil("it is still presented: \(try log())") {
                    try log().dropFirst(told).contains { $0.contains(name) && !$0.contains("backup") }
                }
                presenter.signal(SIGTERM)
            }
        }

        @Test func `nobody takes a name that the holder of its claim has left for a moment`() async throws {
            try await Self.saving(.rotation) { account in
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- bash -c 'mv F F.1; touch $tmp/held
                        until [ -e $tmp/go ]; do sleep 0.01; done; cat $tmp/new > F'
                    """
                )
                try account.waitForMark("held")
                for call in ["touch F", "ln -s x F", "mkdir F", "cp $tmp/new F", "rm F.1"] {
                    try account.expectBusy(call)
                }
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F F.1; rm F.1") == "new\nold\n")
            }
        }

        @Test func `presenters go with a file and come back when its name is taken again`() async throws {
            try await Self.saving(.slow) { account in
                let (presenter, log) = try account.startPresenter("F")
                let save = try account.start(Save.slow.script)
                try waitUntil("the move is told") { try log().contains("didMove F F.1") }
                #expect(try save.wait(deadline: 60).status == 0)
                try waitUntil("it is back") { try log().contains("didMove F.1 F") }
                let told = try log().count
                try account.shell("echo more >> F; echo more >> F.1")
                try waitUntil("it is there") { try log().dropFirst(told).contains("didChange F") }
                #expect(try log().dropFirst(told).allSatisfy { !$0.contains("F.1") })
                presenter.signal(SIGTERM)
            }
        }

        @Test(arguments: Save.allCases.filter { $0 != .slow }) func `a backup leaves presenters at the name`(
            save: Save
        ) async throws {
            // What is sent of a half of it has presenters be told of the move first.
            try await Self.saving(save, settle: "3s") { account in
                let (presenter, log) = try account.startPresenter("F")
                try account.shell(save.script)
                try waitUntil("the save is told") { try log().contains("didChange F") }
                let told = try log().count
                try account.shell("echo more >> F")
                try waitUntil("it is still there") { try log().dropFirst(told).contains("didChange F") }
                let lines = try log()
                #expect(!lines.contains { $0.contains("didMove") }, "\(lines)")
                try account.shell("mv F H")
                try waitUntil("a move is told") { try log().contains("didMove F H") }
                presenter.signal(SIGTERM)
            }
        }
    }
}
