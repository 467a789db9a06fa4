import CoveCore
import Foundation

/// Comparing tree, source and model.
extension ModelTest {
    func settle() async throws {
        do {
            try await account.settle()
        } catch {
            throw failure("settling failed: \(error)")
        }
    }

    func settleAndCompare() async throws {
        note("settle")
        try await settle()
        let there = try source.snapshot()
        try compare(there, "source")
        for (path, bytes) in files.sorted(by: { $0.key < $1.key }) {
            do throws(Errno) {
                try expect(try account.tree.read(path), bytes, path)
            } catch {
                throw failure("reading \(path) failed: \(error)")
            }
        }
    }

    /// Takes the source's state as the model, after checking that the tree shows the same.
    func rebase() throws {
        files = [:]
        directories = []
        for (path, bytes) in try source.snapshot() {
            if let bytes { files[path] = bytes } else { directories.insert(path) }
        }
        try compareNames()
        for (path, bytes) in files.sorted(by: { $0.key < $1.key }) {
            do throws(Errno) {
                try expect(try account.tree.read(path), bytes, path)
            } catch {
                throw failure("reading \(path) failed: \(error)")
            }
        }
    }

    func compare(_ found: [String: [UInt8]?], _ what: String) throws {
        for (path, bytes) in files {
            guard let other = found[path] else { throw failure("\(what) lacks \(path)") }
            guard other == bytes else {
                let first =
                    other.map { zip($0, bytes).enumerated().filter { $0.element.0 != $0.element.1 }.map(\.offset) }
                    ?? []
                let range = "\(first.first ?? -1)...\(first.last ?? -1)"
                throw failure(
                    "\(what) has other bytes in \(path): \(other?.count ?? -1) instead of \(bytes.count), other ones in \(range): \((other ?? []).dropFirst(first.first ?? 0).prefix(8))"
                )
            }
        }
        for path in directories where found[path] == nil { throw failure("\(what) lacks directory \(path)") }
        for path in found.keys where files[path] == nil && !directories.contains(path) {
            throw failure("\(what) has \(path), which should not be there")
        }
    }

    /// Compares all names, kinds and sizes of the tree with the model.
    func compareNames() throws {
        var stack = [""]
        var seen: Set<String> = []
        while let directory = stack.popLast() {
            let names: [String: ItemKind]
            do throws(Errno) {
                names = try account.tree.list(directory)
            } catch {
                throw failure("listing \(directory) failed: \(error)")
            }
            for (name, kind) in names {
                let path = directory.isEmpty ? name : "\(directory)/\(name)"
                seen.insert(path)
                if kind == .directory {
                    guard directories.contains(path) else { throw failure("the tree has directory \(path)") }
                    stack.append(path)
                } else {
                    guard let bytes = files[path] else { throw failure("the tree has \(path), which should be gone") }
                    let size = (try? account.tree.size(path)) ?? -1
                    guard size == bytes.count else {
                        throw failure("\(path) has \(size) bytes instead of \(bytes.count)")
                    }
                }
            }
        }
        for path in Array(files.keys) + directories where !seen.contains(path) {
            throw failure("the tree lacks \(path)")
        }
    }

    func expect(_ found: [UInt8], _ wanted: [UInt8], _ path: String) throws(Errno) {
        if found == wanted { return }
        let first = zip(found, wanted).enumerated().first { $0.element.0 != $0.element.1 }?.offset
        trail.append("\(path): \(found.count) bytes instead of \(wanted.count), first difference at \(first ?? -1)")
        throw .inputOutput
    }
}
