import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Programs on CoveKit beside programs that know nothing of it; the numbers are those of the acceptance checklist.
    struct KitPlainTests {
        @Test func `4, 5, 6. readers together, a writer after them, and a reader that came later after the writer`()
            async throws
        {
            try await mounted { source in
                try source.makeDirectory("d")
                try source.save("d/f", Array("old".utf8))
            } _: { account in
                let (directory, file) = (account.path("d"), account.path("d/f"))
                let gates = try ["one", "two", "three"].map { try account.gate($0) }
                let above = try account.driver("keep \(directory) \(gates[0])")
                let reader = try account.driver("keep \(file) \(gates[1])")
                for one in [above, reader] { try one.says("keeping") }
                #expect(try account.driver("read \(file)").finish() == ["read: old"])
                let writer = try account.driver("hold \(file) \(gates[2])", "write \(file) new")
                try account.waitForClaims(1)
                let late = try account.driver("read \(file)")
                try account.waitForClaims(2)
                try gates[1].open(for: reader)
                // A reader of the directory holds up nobody inside it.
                try writer.says("holding \(file)")
                #expect(late.lines.isEmpty)
                try gates[2].open(for: writer)
                #expect(try late.finish().count == 1)
                try gates[0].open(for: above)
                for one in [above, reader, writer] { _ = try one.finish() }
            }
        }

        @Test func `7, 8. whoever deletes a directory, or uses one file of a package, has all of it`() async throws {
            try await mounted { source in
                for name in ["d", "p.rtfd"] { try source.makeDirectory(name) }
                for name in ["d/f", "p.rtfd/a", "p.rtfd/b"] { try source.save(name, Array("old".utf8)) }
            } _: { account in
                for (held, option, other) in [("d", " forDeleting", "d/f"), ("p.rtfd/a", "", "p.rtfd/b")] {
                    let gate = try account.gate("go-\(other.count)")
                    let holder = try account.driver("hold \(account.path(held)) \(gate)\(option)")
                    try holder.says("holding \(account.path(held))")
                    let waiting = try account.driver("write \(account.path(other)) new")
                    try account.waitForClaims(1)
                    #expect(waiting.lines.isEmpty)
                    try gate.open(for: holder)
                    #expect(try waiting.finish() == ["wrote \(account.path(other))"])
                }
            }
        }

        @Test func `18. after a program that is killed in its accessor the next one goes on within a second`()
            async throws
        {
            try await mounted { source in
                try source.save("f", Array("old".utf8))
            } _: { account in
                let file = account.path("f")
                let holder = try account.driver("hold \(file) \(try account.gate("go"))")
                try holder.says("holding \(file)")
                let waiting = try account.driver("write \(file) new")
                try account.waitForClaims(1)
                let start = ContinuousClock.now
                holder.signal(SIGKILL)
                #expect(try waiting.finish() == ["wrote \(file)"])
                #expect(ContinuousClock.now - start < .seconds(1))
            }
        }

        @Test func `22. a package that is read for uploading comes as one zip file, which goes with the claim`()
            async throws
        {
            try await mounted { source in
                try source.makeDirectory("p.rtfd")
                try source.save("p.rtfd/a", Array("text".utf8))
            } _: { account in
                let copy = account.scratch.appending("copy.zip")
                let reader = try account.driver("zip \(account.path("p.rtfd")) \(copy)")
                #expect(try reader.finish() == ["zip", "left: 0"])
                #expect(try account.shell("python3 -m zipfile -e \(copy) $tmp/out; cat $tmp/out/p.rtfd/a") == "text")
            }
        }

        @Test func `23, 24. other programs read what a document has not saved, and it loads what an editor saves`()
            async throws
        {
            try await mounted { source in
                try source.save("f", Array("old\n".utf8))
            } _: { account in
                let gate = try account.gate("go")
                let program = try account.driver(
                    "open \(account.path("f"))",
                    "edit unsaved",
                    "say edited",
                    "gate \(gate)",
                    "watch other\n",
                    "close"
                )
                try program.says("edited")
                #expect(try account.shell("cat f") == "unsaved")
                try gate.open(for: program)
                try account.shell("vim -nu NONE -i NONE -es -c 's/.*/other/' -c wq f")
                #expect(try program.finish().last == "closed")
                try account.expectSame()
            }
        }

        @Test func `opens that wait while a file is saved by a new one open that one`() async throws {
            try await mounted { account in
                try account.shell("for n in f g h; do echo old > $n; done")
                let holder = try account.start(
                    """
                    exec $COVE coordinate --writing f --writing g --writing h -- sh -c 'touch $tmp/held
                    until [ -e $tmp/go ]; do sleep 0.01; done
                    for n in f g h; do echo new > n; mv n $n; done'
                    """
                )
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                let waiting = try ["echo more >> f", "cat g", "echo over > h"].map { try account.start($0) }
                try account.waitForClaims(3)
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 60).status == 0)
                let results = try waiting.map { try $0.wait(deadline: 60) }
                #expect(results.map(\.status) == [0, 0, 0] && results[1].output == "new\n")
                #expect(try account.shell("cat f g h") == "new\nmore\nnew\nover\n")
                try account.waitForClaims(0)
                try account.expectSame()
            }
        }

        @Test func `25. shells that append and a program on CoveKit lose no line, and a reader sees no part`()
            async throws
        {
            try await mounted { source in
                try source.save("f", [])
            } _: { account in
                let file = account.path("f")
                let shells = try [1, 2].map { number in
                    try account.start("for n in $(seq 100); do echo \(number)$n >> f; done")
                }
                let writers = [try account.driver("race \(file) 30"), try account.driver("append \(file) 30")]
                let reader = try account.driver("lines \(file) 260")
                for shell in shells { #expect(try shell.wait(deadline: 100).status == 0) }
                #expect(try writers.map { try $0.finish() } == [["raced"], ["appended"]])
                #expect(try reader.finish() == ["whole"])
                #expect(try account.shell("wc -l < f; sort -u f | wc -l") == "260\n202\n")
                try account.expectSame()
            }
        }
    }
}
