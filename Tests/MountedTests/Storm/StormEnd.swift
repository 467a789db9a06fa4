import CoveCore
import CoveTestSupport
import Foundation

/// The end of a storm: all devices and the source are to be the same, and nothing that was written is to be missing.
struct StormEnd {
    /// All files with their bytes and all directories.
    typealias Snapshot = [String: [UInt8]?]

    let devices: [StormDevice]
    /// The folder of the source, or where it is served.
    let files: String
    let ledger: StormLedger
    let calls: StormCalls

    /// Waits until everything is everywhere; what is wrong then.
    func problems(deadline: TimeSpan) throws -> [String] {
        for device in devices { _ = try device.cove("resume") }
        let end = System.monotonic() + deadline
        var left: String?
        repeat {
            guard !calls.hasHung else { return calls.problems }
            let before = left
            do { left = try trouble() } catch { left = "\(error)" }
            if let left, left != before { ledger.note("not yet the same: \(left)") }
        } while left != nil && System.monotonic() < end
        var problems = calls.problems
        if let left { problems.append("never the same: \(left)") }
        if left == nil { problems += try queryProblems(deadline: .seconds(30)) }
        for device in devices {
            do {
                if let problem = try device.daemonProblem() { problems.append(problem) }
            } catch {
                problems.append("device \(device.index) does not answer: \(error)")
            }
        }
        let kept = try SharedSource.snapshot(files).filter { !Self.isLeftover($0.key) }
        problems += Self.missing(in: kept, ledger, places)
        return problems + ledger.torn.map { "torn: \($0)" }
    }

    /// What the devices' queries tell and a walk does not find, or the other way round.
    func queryProblems(deadline: TimeSpan) throws -> [String] {
        try devices.compactMap { device in
            guard let tree = device.tree, let query = device.query else { return nil }
            return try query.problem(in: tree, deadline: deadline)
        }
    }

    /// The same while changes go on to come from elsewhere; a folder of most documents that somebody has deleted waits for a
    /// person until then, and can't be walked through.
    func queryProblemsInPause() throws -> [String] {
        var problems: [String] = []
        for _ in 0..<6 {
            for device in devices { _ = try device.cove("sync --accept-deletions --accept-local-deletions") }
            problems = try queryProblems(deadline: .seconds(10))
            if problems.isEmpty { break }
        }
        return problems
    }

    /// Lets all devices send and fetch; what is not as it must be then, nil when all is.
    private func trouble() throws -> String? {
        for device in devices + devices.dropLast() {
            let words = "sync --wait --timeout 60 --accept-deletions --accept-local-deletions"
            if let problem = try device.cove(words) { return problem }
        }
        let source = try SharedSource.snapshot(files)
        var mounts: [Snapshot] = []
        for device in devices {
            guard let tree = device.tree else { return "device \(device.index) is not mounted" }
            mounts.append(try tree.snapshot())
        }
        // SeaweedFS remembers folders that were emptied and shows them, though it has no object of them: to every device.
        let remembered = Set((mounts.first ?? [:]).keys).filter { path in
            files.hasPrefix("http") && !source.keys.contains(path) && mounts.allSatisfy { Self.isFolder(path, in: $0) }
        }
        for (device, mount) in zip(devices, mounts) {
            let shown = mount.filter { !remembered.contains($0.key) }
            if let difference = Self.difference(shown, source) { return "device \(device.index): \(difference)" }
        }
        // SeaweedFS lists folders in which there was something once, and nothing is hidden in them.
        let hidden = try SharedSource.hidden(files).filter { !$0.hasSuffix("/") }
        return hidden.isEmpty ? nil : "left hidden at the source: \(hidden.prefix(10))"
    }

    private static func isFolder(_ path: String, in tree: Snapshot) -> Bool {
        if case .some(.none) = tree[path] { true } else { false }
    }

    /// What differs between a device and the source; nil when they are the same.
    static func difference(_ device: Snapshot, _ source: Snapshot) -> String? {
        func say(_ bytes: [UInt8]??) -> String {
            switch bytes {
            case .none: "nothing"
            case .some(.none): "a folder"
            case .some(.some(let bytes)): "\(bytes.count) bytes \(StormRecord.parse(bytes).records.map(\.record.name))"
            }
        }
        let names = Set(device.keys).union(source.keys).filter { device[$0] != source[$0] && !isLeftover($0) }
        let lines = names.sorted().map { "\($0) is \(say(device[$0])), at the source \(say(source[$0]))" }
        return lines.isEmpty ? nil : "\(lines.count) differ: \(lines.prefix(10).joined(separator: "; "))"
    }

    /// What is torn, and what was written, never given up and in no file; `places` tells where else such a record is.
    static func missing(in tree: Snapshot, _ ledger: StormLedger, _ places: (StormRecord) -> String) -> [String] {
        var found: Set<StormRecord> = []
        for (path, bytes) in tree {
            guard let bytes else { continue }
            found.formUnion(ledger.read(bytes, "\(path) at the end").records.map(\.record))
        }
        var unseen = ledger.unseen
        return ledger.lost(found).compactMap { record, history in
            let place = places(record)
            // What came to a name in the moment before its file was deleted went with it, and is kept as deleted things are.
            if unseen > 0, !place.isEmpty {
                unseen -= 1
                return nil
            }
            return "lost: \(record.name), \(place.isEmpty ? "nowhere" : "but in \(place)"): \(history)"
        }
    }

    /// Where on this machine a record's head is: in versions, in the trash, or in what nobody refers to.
    private func places(_ record: StormRecord) -> String {
        let folders = devices.map { $0.account.scratch.appending("state") } + (files.hasPrefix("http") ? [] : [files])
        let found = try? Command.run("grep", ["-rlaF", "[\(record.name) "] + folders, mayFail: true).output
        return (found ?? "").split(separator: "\n").joined(separator: ", ")
    }

    /// Apache's own leftovers are in its listings for a while, and rclone's stay in its folder.
    private static func isLeftover(_ path: String) -> Bool {
        path.contains(".davfs.tmp") || path.contains(".rclone_temp_put_")
    }
}
