import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

extension StormProgram {
    /// Renames to a name that is free; nothing can be lost by it.
    private func move(_ from: String, to: String) throws {
        try tree().rename(from, to)
        ledger.note("device \(device.index) moved \(from) to \(to)")
    }

    func moveFile() throws { try move(anyFile(), to: path(anyPlace(), random.oneIn(2) ? anyName() : fresh())) }

    func exchange() throws {
        let (first, second) = (try anyFile(), try anyFile())
        guard first != second else { return }
        try tree().rename(first, second, .exchange)
        ledger.note("device \(device.index) exchanged \(first) and \(second)")
    }

    /// `mv a t; mv b a; mv t b`.
    func rotate() throws {
        let (first, second) = (try anyFile(), try anyFile())
        guard first != second else { return }
        let aside = "\(first).\(fresh())"
        try move(first, to: aside)
        try move(second, to: first)
        try move(aside, to: second)
    }

    /// `mkdir D.new; mv D/f D.new; rm -r D; mv D.new D`, or without a second folder in which it is made anew.
    func rebuild() throws {
        let folder = try anyFolder()
        guard !folder.hasSuffix(".new") else { return try removeAll(folder) }
        let new = "\(folder).new"
        try tree().makeDirectory(new)
        for name in try tree().list(folder).keys.sorted() where !random.oneIn(3) {
            try move(path(folder, name), to: path(new, name))
        }
        try removeAll(folder)
        try move(new, to: folder)
    }

    func deleteFolder() throws {
        let folder = try anyFolder()
        guard random.oneIn(3) || folder.hasSuffix(".new") else { return }
        try removeAll(folder)
    }

    /// `rm -r`, file by file as each was read.
    private func removeAll(_ folder: String) throws {
        for (name, kind) in try tree().list(folder).sorted(by: { $0.key < $1.key }) {
            if kind == .directory {
                try removeAll(path(folder, name))
            } else {
                try delete(path(folder, name))
            }
        }
        try tree().removeDirectory(folder)
        ledger.note("device \(device.index) removed \(folder)")
    }

    /// Gives a folder a name, or another place.
    func renameFolder() throws {
        let from = try anyFolder()
        let name = Self.folderNames.randomElement(using: &random) ?? "D0"
        try move(from, to: random.oneIn(2) ? name : path(anyFolder(), name))
    }

    /// A file takes a folder's name for a while, or both trade names at once.
    func swapKinds() throws {
        let folder = try anyFolder()
        if random.oneIn(3) {
            let file = try anyFile()
            try tree().rename(folder, file, .exchange)
            ledger.note("device \(device.index) exchanged folder \(folder) and \(file)")
            return
        }
        let aside = "\(folder).\(fresh())"
        try move(folder, to: aside)
        try make(folder, "put in the place of a folder as")
        if random.oneIn(2) { _ = poll(nil, 0, Int32.random(in: 0...300, using: &random)) }
        try move(folder, to: path(aside, fresh()))
        try move(aside, to: folder)
    }
}

/// A program that looks at what is there: lists, asks for attributes and reads whole files.
final class StormReader: @unchecked Sendable {
    private let device: StormDevice
    private let ledger: StormLedger
    private let calls: StormCalls
    private var random: SeededGenerator

    init(_ device: StormDevice, _ ledger: StormLedger, _ calls: StormCalls, _ random: SeededGenerator) {
        self.device = device
        self.ledger = ledger
        self.calls = calls
        self.random = random
    }

    /// Looks until a time.
    func run(until end: MonotonicTime) {
        while System.monotonic() < end, !calls.hasHung {
            do { try look() } catch {}
            _ = poll(nil, 0, Int32.random(in: 0...60, using: &random))
        }
    }

    private func look() throws {
        guard let tree = device.tree else { throw Errno.notConnected }
        var folder = ""
        while true {
            let names = try tree.list(folder)
            for name in names.keys { _ = try? tree.lstat(folder.isEmpty ? name : "\(folder)/\(name)") }
            guard let (name, kind) = names.sorted(by: { $0.key < $1.key }).randomElement(using: &random) else { return }
            let path = folder.isEmpty ? name : "\(folder)/\(name)"
            if kind == .directory {
                folder = path
                continue
            }
            return try device.contents.withLock { _ in
                let file = try tree.open(path, O_RDONLY)
                defer { try? tree.close(file) }
                try ledger.read(tree.read(file), "\(path) on device \(device.index)")
            }
        }
    }
}
