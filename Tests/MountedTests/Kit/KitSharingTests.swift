import CoveTestSupport
import Foundation
import Glibc
import Testing

extension Mounted {
    /// Many programs on the same files, and daemons that end under them.
    struct KitSharingTests {
        @Test func `documents, coordinators and readers on the same files lose no line and see no half of one`()
            async throws
        {
            try await mounted { source in
                for name in ["a", "b"] { try source.save(name, []) }
            } _: { account in
                let (a, b) = (account.path("a"), account.path("b"))
                var programs: [Command] = []
                for file in [a, b, a, b] { programs.append(try account.driver("append \(file) 25")) }
                for files in ["\(a) \(b)", "\(b) \(a)"] { programs.append(try account.driver("race \(files) 25")) }
                let reader = try account.driver("lines \(a) 100", "lines \(b) 100")
                for program in programs {
                    let lines = try program.finish()
                    #expect(lines == ["appended"] || lines == ["raced"], "\(lines)")
                }
                #expect(try reader.finish() == ["whole", "whole"])
                #expect(try account.shell("wc -l < a; wc -l < b; sort -u a | wc -l") == "100\n100\n4\n")
                try account.expectSame()
            }
        }

        @Test func `a claim and a presenter outlive the daemon`() async throws {
            try await mounted { source in
                try source.save("f", Array("old".utf8))
            } _: { account in
                let (file, gates) = (account.path("f"), try ["one", "two"].map { try account.gate($0) })
                let presenter = try account.driver("present \(file) didChange", "gate \(gates[0])", "unpresent")
                try presenter.says("presenting")
                let holder = try account.driver("hold \(file) \(gates[1])", "read \(file)")
                try holder.says("holding \(file)")
                let waiting = try account.driver("write \(file) new")
                try account.waitForClaims(1)
                try account.killDaemon()
                try account.waitForClaims(1)
                #expect(waiting.lines.isEmpty && holder.lines == ["holding \(file)"])
                try gates[1].open(for: holder)
                let lines = try holder.finish()
                #expect(lines[1] == "released" && lines[2].hasPrefix("read: "), "\(lines)")
                #expect(try waiting.finish() == ["wrote \(file)"])
                try presenter.says("> changed")
                try gates[0].open(for: presenter)
                #expect(try presenter.finish().last == "removed")
                #expect(try account.shell("cat f") == "new")
                try account.expectSame()
            }
        }

        @Test func `a reader waits for a presenter that has not come back to a new daemon yet`() async throws {
            try await mounted { source in
                try source.save("f", Array("old".utf8))
            } _: { account in
                let (file, gate) = (account.path("f"), try account.gate("gate"))
                let presenter = try account.driver("present \(file)", "unsaved saved", "gate \(gate)", "unpresent")
                try presenter.says("presenting")
                // It is not there when the daemon comes, and is when the file is asked for.
                presenter.signal(SIGSTOP)
                try account.killDaemon()
                let reader = try account.driver("read \(file)")
                try account.waitForClaims(1, "presenters")
                #expect(reader.lines.isEmpty)
                presenter.signal(SIGCONT)
                #expect(try reader.finish() == ["read: saved"])
                try gate.open(for: presenter)
                let lines = try presenter.finish()
                #expect(lines.contains("> save") && lines.last == "removed", "\(lines)")
                #expect(try account.shell("$COVE claims --json").contains("\"presenters\":[]"))
                try account.expectSame()
            }
        }

        @Test func `a presenter hears of the end of claims that a former daemon granted, or asked for`() async throws {
            try await mounted { source in
                for name in ["f", "g"] { try source.save(name, Array("old".utf8)) }
            } _: { account in
                let gates = try ["one", "two", "three"].map { try account.gate($0) }
                let (f, h) = (account.path("f"), account.path("h"))
                let messages = "relinquishToWriter didMove"
                let presenters = try [f, account.path("g")].map { file in
                    try account.driver("present \(file) \(messages)", "gate \(gates[0])", "presented", "unpresent")
                }
                for presenter in presenters { try presenter.says("presenting") }
                // What moves is presented where it is.
                try account.shell("mv g h")
                try presenters[1].says("> moved \(h)")
                let holder = try account.driver("hold \(f) \(gates[1])")
                try holder.says("holding \(f)")
                // One that dies with the daemon has nobody who tells of its end.
                let other = try account.driver("hold \(h) \(gates[2])")
                try other.says("holding \(h)")
                for presenter in presenters { try presenter.says("> writer") }
                other.signal(SIGSTOP)
                try account.killDaemon()
                other.signal(SIGKILL)
                try presenters[1].says("> reacquired")
                #expect(!presenters[0].lines.contains("> reacquired"))
                try gates[1].open(for: holder)
                #expect(try holder.finish().last == "released")
                try presenters[0].says("> reacquired")
                try account.shell("mv h i")
                try presenters[1].says("> moved \(account.path("i"))")
                for presenter in presenters { try gates[0].open(for: presenter) }
                for (presenter, place) in zip(presenters, [f, account.path("i")]) {
                    #expect(try presenter.finish().suffix(2) == ["at \(place)", "removed"])
                }
                try account.expectSame()
            }
        }

        @Test func `a move that a presenter has not heard of outlives the daemon, and so does the way back`()
            async throws
        {
            try await mounted { source in
                for name in ["f", "g"] { try source.save(name, Array("old".utf8)) }
            } _: { account in
                let gate = try account.gate("gate")
                let presenters = try ["f", "g"].map { name in
                    try account.driver(
                        "present \(account.path(name)) relinquishToWriter didMove",
                        "gate \(gate)",
                        "presented",
                        "unpresent"
                    )
                }
                for presenter in presenters { try presenter.says("presenting") }
                // Presenters hear of that a second later, unless the name is taken again before.
                try account.shell("mv f f.1; mv g g.1")
                try account.killDaemon()
                try account.shell("echo new > g")
                try presenters[0].says("> moved \(account.path("f.1"))")
                try account.shell("echo newer > f.1; echo newer > g")
                for presenter in presenters { try presenter.says("> writer") }
                for presenter in presenters { try gate.open(for: presenter) }
                for (presenter, name) in zip(presenters, ["f.1", "g"]) {
                    #expect(try presenter.finish().suffix(2) == ["at \(account.path(name))", "removed"])
                }
                try account.expectSame()
            }
        }
    }
}
