import CoveTestSupport
import Foundation
import Testing

@testable import CoveKit

/// Programs on ordinary folders that end in the middle, and disks that do.
struct ProgramTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func driver(_ steps: String...) throws -> Command { try Command(Command.built("CoveKitDriver"), steps) }

    private func gate() throws -> Gate { try Gate(folder.directory.appending("gate")) }

    @Test func `30. a process that is killed in a save leaves the old contents, and the next save clears up`()
        async throws
    {
        try await blocking {
            let file = folder.url("doc")
            let killed = try driver("create \(file.path) old", "edit new", "crash", "save").wait(deadline: 60)
            #expect(killed.status == 128 + SIGKILL)
            #expect(try text(file) == "old")
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.directory.path)
            #expect(Set(names) == ["doc", ".doc.cove-save-0"])
            #expect(try driver("open \(file.path)", "close").finish() == ["open: old", "closed"])
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["doc"])
        }
    }

    @Test func `what a save has said to be saved outlives a power cut`() async throws {
        try await blocking {
            let (one, two) = (folder.directory.appending("one"), folder.directory.appending("two"))
            for name in [one, two] {
                try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: true)
            }
            let disk = try LoopDisk(in: one, megabytes: 16)
            let path = "\(disk.path)/doc"
            let lines = try driver("create \(path) old", "edit new", "save").finish()
            #expect(lines == ["open: old", "saved"])
            try disk.fail()
            let after = try LoopDisk(in: two, copying: disk)
            #expect(try text(URL(fileURLWithPath: "\(after.path)/doc")) == "new")
            try after.unmount()
            try disk.unmount()
        }
    }

    @Test func `37. on a full disk a save fails, and the next one with room clears that`() async throws {
        try await blocking {
            let disk = try LoopDisk(in: folder.directory.path, megabytes: 4)
            let (file, filler) = (URL(fileURLWithPath: "\(disk.path)/doc"), "\(disk.path)/filler")
            let large = String(repeating: "x", count: 8192)
            let gate = try gate()
            let program = try driver(
                "create \(file.path) \(large)",
                "gate \(gate)",
                "edit new\(large)",
                "save",
                "state",
                "gate \(gate)",
                "save",
                "state"
            )
            try program.says("open: \(large)")
            _ = try Command.run("dd", ["if=/dev/zero", "of=\(filler)", "bs=4k"], mayFail: true)
            try gate.open(for: program)
            try program.says("state 4")
            #expect(program.lines.contains { $0.hasPrefix("failed: \(ENOSPC) ") })
            #expect(try text(file) == large)
            try FileManager.default.removeItem(atPath: filler)
            try gate.open(for: program)
            #expect(try program.finish().suffix(2) == ["saved", "state 0"])
            #expect(try text(file) == "new\(large)")
            try disk.unmount()
        }
    }

    @Test func `a program that is asked to end saves first`() async throws {
        try await blocking {
            let file = folder.url("doc")
            let program = try driver("create \(file.path) old", "edit unsaved", "say edited", "gate \(try gate())")
            try program.says("edited")
            #expect(try text(file) == "old")
            program.signal(SIGTERM)
            #expect(try program.wait(deadline: 60).status == 128 + SIGTERM)
            #expect(try text(file) == "unsaved")
        }
    }

    @Test func `the sample makes its document, finds it, and leaves two alone`() async throws {
        try await blocking {
            let sample = try Command.built("TextDocument")
            let first = try Command(sample, [folder.directory.path, "a line"])
            try first.says("watching test.txt")
            #expect(first.output == "created: (default value)\nsaved: (default value)\na line\nwatching test.txt\n")
            let second = try Command(sample, [folder.directory.path])
            try second.says("watching test.txt")
            #expect(second.lines.prefix(2) == ["opened: (default value)", "a line"])
            for program in [first, second] { program.signal(SIGTERM) }
            for program in [first, second] { #expect(try program.wait(deadline: 60).status == 128 + SIGTERM) }
            _ = try folder.make("d/test.txt")
            let refused = try Command(sample, [folder.directory.path]).wait(deadline: 60)
            #expect(refused.status == 1 && refused.output == "there are 2 files test.txt; nothing is opened\n")
            #expect(try Command(sample).wait(deadline: 60).status == 2)
        }
    }
}
