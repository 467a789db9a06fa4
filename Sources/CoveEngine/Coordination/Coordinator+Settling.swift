internal import CoveClaims
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Making ready what a claim needs once it has its turn: contents, programs that write, snapshots.
extension Coordinator {
    /// A program that has a file open for writing and does not write for this long is done.
    static let writeRest = TimeSpan.seconds(5)

    private struct Need: Sendable {
        var use: ItemUse
        var path: RemotePath
        var place: CatalogPlace
    }

    /// Called when a claim's earlier ones have ended and its presenters have replied.
    func settle(_ number: Int) {
        let needs: [Need]
        do throws(ClaimFailure) {
            needs = try self.needs(of: number)
        } catch {
            return coordination.withdraw(number, error)
        }
        let isReady = needs.allSatisfy { need in
            !need.use.isForUploading && (!need.use.needsContents || isHere(need.place)) && writers(of: need).isEmpty
        }
        if isReady { return settled(number, needs) }
        let policy = coordination.act { state, _ in state.table.claims[number]?.request.openFiles ?? .wait }
        Task { [self] in
            var snapshots: [String] = []
            do throws(ClaimFailure) {
                for need in needs where need.use.needsContents {
                    do throws(Errno) { try await fetch(need.place) } catch {
                        throw ClaimFailure(error, path: need.path)
                    }
                }
                // One that rested when it was looked at may write again while another one is waited for.
                while try await dealWithWriters(needs, policy, claim: number) {}
                for need in needs where need.use.isForUploading {
                    let index = snapshots.count
                    snapshots.append(try await snapshot(need.place, need.path, claim: number, index: index))
                }
                let made = snapshots
                let hasOpenFiles = needs.contains { !writers(of: $0).isEmpty }
                let isWanted = coordination.act { state, _ in
                    guard let claim = state.table.claims[number] else { return false }
                    claim.hasOpenFiles = hasOpenFiles
                    if !made.isEmpty { state.snapshots[number] = made }
                    return true
                }
                if !isWanted { for path in made { Snapshots.remove(path) } }
                settled(number, needs)
            } catch {
                for path in snapshots { Snapshots.remove(path) }
                coordination.withdraw(number, error)
            }
        }
    }

    /// Goes once through the programs that have files open for writing; true where one had to be waited for.
    private func dealWithWriters(
        _ needs: [Need],
        _ policy: OpenFilePolicy,
        claim: Int
    ) async throws(ClaimFailure) -> Bool {
        var hasWaited = false
        for need in needs {
            for (id, path) in writers(of: need) {
                switch policy {
                case .wait: if await waitForWriters(of: id, path, claim: claim) { hasWaited = true }
                case .ignore: await flush(path)
                case .fail: try await refuseWriters(of: id, path, claim: claim)
                }
            }
        }
        return hasWaited
    }

    private func settled(_ number: Int, _ needs: [Need]) {
        coordination.act { state, now in
            state.table.settled(number, existed: needs.map { $0.place.item != nil }, now: now)
        }
    }

    /// In the order of the claim's intents, and all of them.
    private func needs(of number: Int) throws(ClaimFailure) -> [Need] {
        let asked: [(ItemUse, RemotePath)] = coordination.act { state, _ in
            state.table.claims[number]?.intents.map { ($0.use, $0.node.path) } ?? []
        }
        var needs: [Need] = []
        for (use, path) in asked { needs.append(Need(use: use, path: path, place: try namespace.place(at: path))) }
        return needs
    }

    private func isHere(_ place: CatalogPlace) -> Bool {
        guard place.item != nil else { return true }
        switch place.kind {
        case .file: return place.isWhole
        case .directory: return !(place.steps.last?.isPackage ?? false)
        default: return true
        }
    }

    /// The files that programs have open for writing, of those that an intent is about: all of the package, and of a
    /// directory that is to be read as a whole, or to go.
    private func writers(of need: Need) -> [(ItemID, RemotePath)] {
        var path = need.path
        if let package = need.place.steps.firstIndex(where: \.isPackage) {
            path = RemotePath(need.place.steps[...package].map(\.name))
        } else if need.place.kind != .directory {
            guard need.place.kind == .file, let id = need.place.item, contents.live.isWritable(id) else { return [] }
            return [(id, path)]
        } else if !need.use.takesAll, !need.use.isForUploading {
            return []
        }
        let open = contents.live.writableItems()
        guard !open.isEmpty else { return [] }
        let inside = try? catalog.glance { database throws(Errno) in
            var inside: [(ItemID, RemotePath)] = []
            for id in open {
                for entry in try database.entries(of: id) {
                    guard
                        let steps = try self.namespace.steps(parent: entry.parent, name: entry.name, item: id, database)
                    else {
                        continue
                    }
                    let place = RemotePath(steps.map(\.name))
                    guard place == path || place.isInside(path) else { continue }
                    inside.append((id, place))
                    break
                }
            }
            return inside
        }
        return inside ?? []
    }

    /// Fetches a file, or all of a package.
    private func fetch(_ place: CatalogPlace) async throws(Errno) {
        guard let item = place.item else { return }
        if place.kind == .file { return try await contents.materialize(item) }
        guard place.kind == .directory else { return }
        try await namespace.waitForDownload(place.path) { _ in }
    }

    /// Waits for programs that write to a file as they like; true where that took time.
    ///
    /// What they wrote is fetched from the kernel, and then they close it or rest.
    private func waitForWriters(of id: ItemID, _ path: RemotePath, claim: Int) async -> Bool {
        var hasWaited = false
        while contents.live.isWritable(id), let item = contents.live.find(id),
            !coordination.act({ state, _ in state.table.isWrittenByOwnSide(path, of: claim) })
        {
            await flush(path)
            let last = item.state.withLock { max($0.lastWrite, $0.lastWriteOpen) }
            let rest = last + Coordinator.writeRest - clock.monotonic()
            guard coordination.act({ state, _ in state.table.claims[claim] != nil }) else { return false }
            guard rest > .zero else { break }
            hasWaited = true
            // A close is seen as late as this.
            try? await Task.sleep(for: min(rest, .milliseconds(50)))
        }
        return hasWaited
    }

    /// Fetches what programs wrote to a file from the kernel.
    private func flush(_ path: RemotePath) async {
        try? await onContentQueue { [self] () throws(Errno) in
            guard let announcer = announcer else { return }
            try announcer.perform(.flush(path))
        }
    }

    /// Throws `EBUSY` while another program than the claim's own side has a file open for writing.
    private func refuseWriters(of id: ItemID, _ path: RemotePath, claim: Int) async throws(ClaimFailure) {
        let isOwn = coordination.act { state, _ in state.table.isWrittenByOwnSide(path, of: claim) }
        guard contents.live.isWritable(id), !isOwn else { return }
        throw Self.busy(await openFiles([(id, path)]), path, .busy)
    }

    /// Who kept a claim waiting until its time was over; nil where nobody has its files open any more.
    func whoHasOpen(_ request: ClaimRequest, _ places: [CatalogPlace]) async -> ClaimFailure? {
        let holder = coordination.act { state, _ in state.holders[request.session]?.process }
        for (item, place) in zip(request.items, places) {
            let need = Need(use: item.use, path: place.path, place: place)
            for file in writers(of: need) {
                let others = Self.others(await openFiles([file]), than: holder)
                if others.contains(where: { $0.process != 0 }) { return Self.busy(others, file.1, .timedOut) }
            }
        }
        return nil
    }

    /// Says who has a file open for writing.
    private static func busy(
        _ files: [CoordinationInterface.OpenFile],
        _ path: RemotePath,
        _ errno: Errno
    ) -> ClaimFailure {
        let programs = files.filter { $0.process != 0 }.map { "\($0.program) (\($0.process))" }
        let who = programs.isEmpty ? "a program" : programs.joined(separator: ", ")
        let have = programs.count > 1 ? "have" : "has"
        return ClaimFailure(errno, "\(who) \(have) \(path) open for writing", path: path)
    }

    /// Those that neither a process nor one that it started has open.
    private static func others(
        _ files: [CoordinationInterface.OpenFile],
        than holder: Int32?
    ) -> [CoordinationInterface.OpenFile] {
        files.filter { file in
            file.process != holder && !ProcessTree.ancestors(of: file.process).contains { $0 == holder }
        }
    }

    /// The files that a claim waits for to be closed, and who has them open.
    func openFiles(of number: Int) async -> [CoordinationInterface.OpenFile] {
        let needs = (try? needs(of: number)) ?? []
        return await openFiles(needs.flatMap { writers(of: $0) })
    }

    /// The files of a granted claim that programs beside its holder's have had open for writing since before: what they write
    /// now, nobody is asked about.
    func othersOpenFiles(of number: Int) async -> [CoordinationInterface.OpenFile] {
        let holder: Int32? = coordination.act { state, _ in
            guard let claim = state.table.claims[number], claim.hasOpenFiles else { return nil }
            return state.holders[claim.session]?.process
        }
        guard let holder else { return [] }
        return Self.others(await openFiles(of: number).filter { $0.process != 0 }, than: holder)
    }

    /// Who has files open for writing; process 0 where that can't be found out.
    ///
    /// Where nobody has one open that is not released yet, somebody has mapped it and closed it.
    private func openFiles(_ files: [(id: ItemID, path: RemotePath)]) async -> [CoordinationInterface.OpenFile] {
        let paths = files.map(\.path)
        guard !paths.isEmpty else { return [] }
        let mount = Array((configuration.mountpoint + "/").utf8)
        func name(_ path: RemotePath) -> [UInt8] { mount + Array(path.names.map(\.bytes).joined(separator: [0x2F])) }
        let shown = Dictionary(paths.map { (name($0), $0) }) { first, _ in first }
        var writers = OpenFiles.writers(of: Set(shown.keys))
        let known = Set(writers.map(\.path))
        let mapped = Set(files.filter { contents.live.isWritable($0.id) }.map { name($0.path) }).subtracting(known)
        if !mapped.isEmpty { writers += await OffPool.run { OpenFiles.mappers(of: mapped) } }
        var found: [CoordinationInterface.OpenFile] = []
        for (name, process) in writers {
            let program = ProcessTree.name(of: process)
            // A child that has ended meanwhile has no name any more.
            guard let path = shown[name], !program.isEmpty else { continue }
            found.append(CoordinationInterface.OpenFile(path: path.description, process: process, program: program))
        }
        for path in paths where !found.contains(where: { LocalPath.isSame($0.path, path.description) }) {
            found.append(CoordinationInterface.OpenFile(path: path.description, process: 0, program: ""))
        }
        return found
    }

    private func snapshot(
        _ place: CatalogPlace,
        _ path: RemotePath,
        claim: Int,
        index: Int
    ) async throws(ClaimFailure) -> String {
        guard let item = place.item, place.kind == .file || place.kind == .directory else {
            throw ClaimFailure(.noSuchEntry, path: path)
        }
        do throws(Errno) {
            if place.kind == .directory { try await namespace.waitForDownload(path) { _ in } }
            let kind = place.kind ?? .file
            let made = await withCheckedContinuation { (done: CheckedContinuation<Result<String, Errno>, Never>) in
                snapshotQueue.async { [self] in
                    let snapshots = Snapshots(coordinator: self)
                    done.resume(
                        returning: Result { () throws(Errno) in
                            try snapshots.make(item, kind: kind, path: path, claim: claim, index: index)
                        }
                    )
                }
            }
            return try made.get()
        } catch {
            throw ClaimFailure(error, path: path)
        }
    }
}
