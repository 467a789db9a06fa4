internal import CoveCore
internal import CovePicker
internal import Dispatch
internal import Glibc
internal import Synchronization

/// What the picker shows of all accounts that a person has mounted: the places of each that can take part in what is asked.
struct AccountsPickerService: PickerService {
    /// How long the menu waits for accounts; those that have not answered by then are in it as such.
    private static let patience = TimeSpan.seconds(2)

    let request: PickerRequest
    private let accounts: [MenuAccount]
    private let places: [PickerRoot]

    /// What accounts came to, as a thread for each finds it out and another one waits for them.
    private final class Finds: Sendable {
        private let offers = Mutex<[Int: AccountPickerService.Offer]>([:])
        private let arrived = DispatchSemaphore(value: 0)

        func add(_ offer: AccountPickerService.Offer, of number: Int) {
            offers.withLock { $0[number] = offer }
            arrived.signal()
        }

        /// What those came to, of so many, that have answered in time.
        func wait(for count: Int) -> [Int: AccountPickerService.Offer] {
            let deadline = DispatchTime.now() + AccountsPickerService.patience.dispatchInterval
            for _ in 0..<count where arrived.wait(timeout: deadline) == .timedOut { break }
            return offers.withLock { $0 }
        }
    }

    /// Looks at what accounts offer, in the order of their mounts.
    ///
    /// Throws why the first one offers nothing, where no other one does either.
    init(_ request: PickerRequest, _ mounts: [Mount]) throws(PickerFailure) {
        self.request = request
        accounts = mounts.map { MenuAccount(request, $0) }
        let offers = Self.look(at: accounts)
        var found: [(MenuAccount, PickerRoot)] = []
        var refusal: PickerFailure?
        for (number, account) in accounts.enumerated() {
            switch offers[number] {
            case .places(let places): found += places.map { (account, $0) }
            case .refused(let failure): refusal = refusal ?? failure
            case .silent, nil: found.append((account, account.silentPlace))
            }
        }
        if found.isEmpty {
            throw refusal ?? PickerFailure(nil, "no account is mounted", "mount one with `cove mount`")
        }
        places = Self.distinct(found)
    }

    /// Looks at each on a thread of its own, as one that hangs holds its thread for as long as it does.
    private static func look(at accounts: [MenuAccount]) -> [Int: AccountPickerService.Offer] {
        let finds = Finds()
        // Signals are for the face that follows, never for a thread that hangs then.
        var (all, former) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_BLOCK, &all, &former)
        for (number, account) in accounts.enumerated() {
            do throws(Errno) {
                try BlockingThread.start { finds.add(account.look(), of: number) }
            } catch {
                finds.add(.silent(PickerFailure(nil, "\(error)", errno: error)), of: number)
            }
        }
        pthread_sigmask(SIG_SETMASK, &former, nil)
        return finds.wait(for: accounts.count)
    }

    /// Where there are several accounts, each container's is told; and where two of these have the same name, where each is.
    private static func distinct(_ offered: [(account: MenuAccount, root: PickerRoot)]) -> [PickerRoot] {
        let isAlone = Set(offered.map(\.account.mount.path)).count == 1
        let found = offered.map { account, root in
            var root = root
            let isWhole = root.path == Array(account.mount.path.utf8)
            if !isAlone, !isWhole { root.name += " (\(account.mount.accountName))" }
            return (account, root)
        }
        let names = Dictionary(grouping: found, by: \.1.name)
        return found.map { account, root in
            var root = root
            if names[root.name]?.count ?? 0 > 1 { root.name += " – " + account.mount.path }
            return root
        }
    }

    func roots() throws(PickerFailure) -> [PickerRoot] { places }

    func list(
        _ folder: [UInt8],
        interruption: Interruption,
        _ body: ([PickerEntry]) -> Void
    ) throws(PickerFailure) {
        try service(of: folder).list(folder, interruption: interruption, body)
    }

    func thumbnail(_ path: [UInt8]) throws(PickerFailure) -> [UInt8]? { try service(of: path).thumbnail(path) }

    func choose(_ selection: PickerSelection, interruption: Interruption) throws(PickerFailure) -> PickerOutcome {
        try service(of: selection.path).choose(selection, interruption: interruption)
    }

    func cancel() {}

    /// That of the account that shows a path: one may be mounted inside another.
    private func service(of path: [UInt8]) throws(PickerFailure) -> AccountPickerService {
        let holders = accounts.filter { $0.mount.shows(path) }
        guard let account = holders.max(by: { $0.mount.path.utf8.count < $1.mount.path.utf8.count }) else {
            let shown = String(decoding: path, as: UTF8.self)
            throw PickerFailure(shown, "is not among the places that are offered", "choose another one")
        }
        return try account.service()
    }
}
