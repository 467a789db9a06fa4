public import CoveCore
internal import Synchronization

/// A folder that is being listed, or has been, by a thread of its own; it can be given up at any time.
///
/// What was found is kept in the order in which people see it, so that nothing is read again for a filter.
public final class FolderListing: Sendable {
    /// How far it is.
    public enum Progress: Sendable, Equatable {
        /// It goes on; so many items were found.
        case loading(Int)
        /// All is here.
        case done
        /// It ended with a failure.
        case failed(PickerFailure)
    }

    private struct State {
        var found: [ListedEntry] = []
        var sorted: [ListedEntry]?
        var failure: PickerFailure?
    }

    /// The folder's absolute path.
    public let folder: [UInt8]
    private let state = Mutex(State())
    private let interruption: Interruption
    /// Interrupted once the listing is over.
    private let end: Interruption

    /// Begins to list; `changed` is called, on that thread, when there is something new to see.
    public init(
        _ folder: [UInt8],
        of service: any PickerService,
        changed: @escaping @Sendable () -> Void
    ) throws(PickerFailure) {
        self.folder = folder
        do throws(Errno) {
            interruption = try Interruption()
            end = try Interruption()
            try BlockingThread.start { [self] in
                do throws(PickerFailure) {
                    try service.list(folder, interruption: interruption) { part in
                        let entries = part.map(ListedEntry.init)
                        state.withLock { $0.found += entries }
                        changed()
                    }
                    let sorted = state.withLock { $0.found }.sorted(by: <)
                    state.withLock { state in
                        state.sorted = sorted
                        state.found = []
                    }
                } catch {
                    state.withLock { $0.failure = error }
                }
                end.interrupt()
                changed()
            }
        } catch {
            throw PickerFailure(nil, "the folder can't be listed: \(error)", "close other programs", errno: error)
        }
    }

    /// Gives it up, where it goes on.
    public func cancel() { interruption.interrupt() }

    /// Waits until it is over, well or not; false when it is not in time.
    public func wait(limit: TimeSpan) -> Bool { end.wait(limit: limit) }

    deinit { interruption.interrupt() }

    /// How far it is.
    public var progress: Progress {
        state.withLock { state in
            if let failure = state.failure { return .failed(failure) }
            return state.sorted == nil ? .loading(state.found.count) : .done
        }
    }

    /// All items, folders first and then by name; none before all are here.
    public var entries: [ListedEntry] { state.withLock { $0.sorted ?? [] } }
}
