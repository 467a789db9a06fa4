internal import CoveClaims
internal import CoveCore

/// What outlives the daemon: granted claims and presenters are written down as they come, move and end.
extension Coordination {
    /// What a session of before this daemon goes on with.
    struct Resumed: Sendable {
        var session: Int
        var presenters: [Int]
        /// What it is granted.
        var claims: [Int]
        /// The claims, as its presenters know them, of whose end those will hear.
        var letIn: [Int]

        init(_ number: Int, _ table: borrowing ClaimTable) {
            session = number
            let known = table.sessions[number]
            presenters = known?.presenters.sorted() ?? []
            claims = known?.claims.filter { table.claims[$0]?.isGranted == true }.sorted() ?? []
            letIn = []
            for claim in table.claims.values {
                letIn += claim.letIn.filter { known?.presenters.contains($0.presenter) == true }.map(\.claim)
            }
        }
    }

    /// After a move: what is kept is kept where it is now.
    func keepMoved(to path: RemotePath, _ state: inout State) {
        guard let node = state.table.existingNode(at: path), node.isUsed else { return }
        var moved: Set<Int> = []
        var presenters: [Int] = []
        node.eachNode { node in
            for intent in node.intents where intent.claim.isGranted { moved.insert(intent.claim.number) }
            for presenter in node.presenters { presenters.append(presenter.number) }
        }
        for number in moved { keep(number, &state) }
        for number in presenters { keepPresenter(number, &state) }
    }

    /// Presenters that came, or are elsewhere, outlive the daemon.
    func keepPresenter(_ number: Int, _ state: inout State) {
        guard let presenter = state.table.presenters[number], let holder = state.holders[presenter.session],
            let token = holder.token
        else { return }
        let homes = state.table.homes(ofPresenter: number)
        state.store?.keep(presenter, homes: homes, token: token, process: holder.process, began: holder.began)
    }

    func keep(_ number: Int, _ state: inout State) {
        guard let claim = state.table.claims[number], claim.request.manner == .explicit,
            let holder = state.holders[claim.session], let token = holder.token
        else { return }
        let homes = state.table.homes(of: number)
        state.store?.keep(
            claim,
            homes: homes,
            letIn: claim.letIn,
            token: token,
            process: holder.process,
            began: holder.began
        )
    }

    func forget(_ number: Int, _ state: inout State) {
        state.store?.drop(number)
        for path in state.snapshots.removeValue(forKey: number) ?? [] { Snapshots.remove(path) }
    }
}
