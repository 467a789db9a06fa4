import CoveTestSupport
import Foundation
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
    }
}
