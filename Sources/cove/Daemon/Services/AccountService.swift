internal import CoveCore
internal import CoveEngine
internal import Glibc

/// What `io.cove.Account` does.
enum AccountService {
    /// The most list members in one reply, well below the longest message.
    static let batch = 500

    /// The interface for an engine; `unmount` unmounts, lazily or not, and tells how many changes still wait, `upgrade` has
    /// a program take over, `goOn` hears that a person has everything go on.
    static func interface(
        engine: Engine,
        keeper: pid_t,
        unmount: @escaping @Sendable (Bool) async throws(VarlinkError) -> Int,
        upgrade: @escaping @Sendable (String) async throws(VarlinkError) -> Void,
        goOn: @escaping @Sendable () -> Void
    ) -> VarlinkInterface {
        typealias Account = AccountInterface
        return VarlinkInterface(
            name: Account.name,
            definition: Account.definition,
            methods: [
                "Status": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    Account.StatusReply(status: engine.accountStatus())
                },
                "Statistics": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    var statistics = engine.statistics()
                    statistics.keeperPID = Int(keeper)
                    return Account.StatisticsReply(statistics: statistics, program: Upgrade.identity("/proc/self/exe"))
                },
                "Sync": VarlinkMethod { (request: Account.SyncRequest, invocation) async throws(VarlinkError) in
                    goOn()
                    return try await sync(engine, request, invocation)
                },
                "Pause": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    await engine.pause()
                    return VarlinkNothing()
                },
                "Resume": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    goOn()
                    await engine.resume()
                    return VarlinkNothing()
                },
                "Trace": VarlinkMethod { (request: Account.TraceRequest, invocation) async throws(VarlinkError) in
                    try await trace(engine, request.path?.remotePath(), invocation)
                },
                "Conflicts": VarlinkMethod { (_: VarlinkNothing, invocation) async throws(VarlinkError) in
                    let last = try await sendBatches(
                        engine.conflicts(),
                        invocation,
                        texts: { [$0.path, $0.copyPath, $0.host] }
                    ) {
                        Account.ConflictsReply(conflicts: $0)
                    }
                    return Account.ConflictsReply(conflicts: last)
                },
                "ExcludedList": VarlinkMethod { (_: VarlinkNothing, invocation) async throws(VarlinkError) in
                    let last = try await sendBatches(
                        engine.excludedItems(),
                        invocation,
                        texts: { [$0.path, $0.pathBase64 ?? ""] }
                    ) {
                        Account.ExcludedReply(items: $0)
                    }
                    return Account.ExcludedReply(items: last)
                },
                "TrashList": VarlinkMethod { (_: VarlinkNothing, invocation) async throws(VarlinkError) in
                    let last = try await sendBatches(engine.trash(), invocation, texts: { [$0.path] }) {
                        Account.TrashReply(entries: $0)
                    }
                    return Account.TrashReply(entries: last)
                },
                "TrashRestore": VarlinkMethod { (request: Account.RestoreRequest, _) async throws(VarlinkError) in
                    do throws(Errno) {
                        return PathParameter(try await engine.restore(request.documentID))
                    } catch .crossDevice {
                        let words = "its folder stays on this device, and its bytes are not here; include that first"
                        throw .failed(words, errno: .crossDevice, interface: Account.name)
                    } catch {
                        throw error.failure(interface: Account.name)
                    }
                },
                "TrashEmpty": VarlinkMethod { (request: Account.EmptyRequest, _) async throws(VarlinkError) in
                    let age = request.olderThanSeconds.map { TimeSpan.seconds(max(0, $0)) }
                    return Account.EmptyReply(count: await engine.emptyTrash(olderThan: age))
                },
                "BeginErasure": VarlinkMethod { (_: VarlinkNothing, invocation) async throws(VarlinkError) in
                    do throws(Errno) { try await engine.beginErasure() } catch { throw erasing(error) }
                    // Deleting may take long, and who goes before it is finished has given it up.
                    invocation.scope.hold(1)
                    invocation.scope.whenEnded { Task { await engine.abandonErasure() } }
                    return VarlinkNothing()
                },
                "FinishErasure": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    do throws(Errno) {
                        return Account.EmptyReply(count: try await engine.finishErasure())
                    } catch {
                        throw erasing(error)
                    }
                },
                "Migrate": VarlinkMethod { (request: Account.MigrateRequest, _) async throws(VarlinkError) in
                    var except: Set<AppIdentifier> = []
                    for text in request.except ?? [] {
                        guard let identifier = AppIdentifier(text) else {
                            throw .failed("\(text) is no identifier", errno: .invalidArgument, interface: Account.name)
                        }
                        except.insert(identifier)
                    }
                    do throws(AccessError) {
                        let containers = try await engine.migrate(except: except, isTrial: request.dryRun ?? false)
                        return Account.MigrateReply(
                            isNew: containers != nil,
                            containers: containers?.map(\.text) ?? []
                        )
                    } catch {
                        throw .failed(error.description, errno: error.errno, interface: Account.name)
                    }
                },
                "Diagnose": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    Account.DiagnoseReply(findings: await engine.diagnose())
                },
                "Upgrade": VarlinkMethod { (request: Account.UpgradeRequest, _) async throws(VarlinkError) in
                    try await upgrade(request.program)
                    return VarlinkNothing()
                },
                "Unmount": VarlinkMethod { (request: Account.UnmountRequest, _) async throws(VarlinkError) in
                    Account.UnmountReply(queuedOperations: try await unmount(request.lazy ?? false))
                },
            ]
        )
    }

    /// What an error says of erasing everything.
    private static func erasing(_ error: Errno) -> VarlinkError {
        switch error {
        case .notSupported:
            let message = "this source can't tell other devices of it; delete the files, and `cove trash empty`"
            return .failed(message, errno: error, interface: AccountInterface.name)
        case .busy:
            let message = "everything is being erased already, or was until just now; try again in a moment"
            return .failed(message, errno: error, interface: AccountInterface.name)
        case .notEmpty:
            let message = "documents are left at the source; see `cove status`, and try again"
            return .failed(message, errno: error, interface: AccountInterface.name)
        default: return error.failure(interface: AccountInterface.name)
        }
    }

    /// Sends all but the last members of a list, in batches; returns the last ones, for the last reply.
    ///
    /// A batch has no more bytes than a message may have, as long as the texts of one element don't.
    static func sendBatches<Element: Sendable, Reply: Encodable>(
        _ elements: [Element],
        _ invocation: VarlinkInvocation,
        texts: (Element) -> [String],
        _ reply: ([Element]) -> Reply
    ) async throws(VarlinkError) -> [Element] {
        var rest = elements[...]
        while true {
            var (count, room) = (0, MessageRoom())
            for element in rest {
                let fits = room.take(texts(element))
                if count == batch || count > 0 && !fits { break }
                count += 1
                // One that is larger than that goes alone.
                if !fits { break }
            }
            if count == rest.count { return Array(rest) }
            try await invocation.send(reply(Array(rest.prefix(count))))
            rest = rest.dropFirst(count)
        }
    }

    /// Tells what happens at or below a path until the caller goes, or the daemon ends.
    private static func trace(
        _ engine: Engine,
        _ path: RemotePath?,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) -> AccountInterface.TraceReply {
        guard invocation.wantsMore else { throw .expectedMore }
        guard let events = engine.trace(path) else {
            let words = "too many follow already; end a `cove trace`"
            throw .failed(words, errno: .busy, interface: AccountInterface.name)
        }
        let following = Task { () -> VarlinkError? in
            do throws(VarlinkError) {
                try await invocation.send(AccountInterface.TraceReply())
                for await event in events { try await invocation.send(AccountInterface.TraceReply(event: event)) }
            } catch {
                return error
            }
            return nil
        }
        // Nothing may happen that would show that nobody listens.
        invocation.scope.whenEnded { following.cancel() }
        if let error = await following.value { throw error }
        return AccountInterface.TraceReply()
    }

    private static func sync(
        _ engine: Engine,
        _ request: AccountInterface.SyncRequest,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) -> AccountInterface.SyncReply {
        let path = try request.path?.remotePath()
        await engine.sync(
            path,
            acceptDeletions: request.acceptDeletions ?? false,
            acceptLocalDeletions: request.acceptLocalDeletions ?? false
        )
        guard request.wait == true else { return AccountInterface.SyncReply() }
        let timeout = request.timeoutSeconds.map { TimeSpan.seconds(max(0, $0)) }
        let watch = Task {
            while !Task.isCancelled {
                invocation.report(AccountInterface.SyncReply(status: engine.accountStatus()))
                try? await Task.sleep(for: .milliseconds(200))
            }
        }
        let report = await engine.waitUntilSettled(path, timeout: timeout, for: invocation.peer.process)
        watch.cancel()
        await watch.value
        return AccountInterface.SyncReply(report: report)
    }
}
