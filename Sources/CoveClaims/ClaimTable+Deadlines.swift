package import CoveCore

/// Time: presenters that don't answer, holders that don't live, waits that end.
extension ClaimTable {
    /// When `tick` is to be called next; nil for not before another input.
    package var nextDeadline: MonotonicTime? { deadlines.next }

    /// Why a claim has failed that had its turn.
    package static let unready = ClaimFailure(.timedOut, "what it claims was not ready in time; see `cove claims`")

    /// Does what is due.
    package mutating func tick(now: MonotonicTime) {
        while let deadline = deadlines.pop(until: now) {
            switch deadline {
            case .question(let key): expireQuestion(key, now: now)
            case .claim(let number):
                guard let claim = claims[number], !claim.isGranted else { continue }
                if claim.request.isBrief, claim.state == .presenters { stand(claim, now: now) }
                fail(claim, claim.state == .settling ? Self.unready : ClaimFailure(.timedOut), now: now)
            case .watch(let number): ask(number, now: now)
            case .standing(let key): expireStanding(key, now: now)
            case .departure(let path, let number): forgetDeparture(from: path, number: number, now: now)
            case .move(let number):
                guard let presenter = presenters[number], let move = presenter.pendingMove, move.at <= now else {
                    continue
                }
                tellPendingMove(presenter)
            case .ping(let session, let message):
                if sessions[session]?.ping == message { breakClaims(of: session, now: now) }
            }
        }
    }

    /// Has something looked at when its time comes.
    mutating func schedule(_ deadline: Deadline, at time: MonotonicTime) {
        deadlines.insert(deadline, at: time)
        // Most deadlines are over long before their time.
        guard deadlines.count > 1000, deadlines.count > 4 * (questions.count + claims.count + sessions.count) else {
            return
        }
        let (questions, claims, sessions) = (questions, claims, sessions)
        let (presenters, departures, standings) = (presenters, departures, standings)
        deadlines.keep { deadline in
            switch deadline {
            case .question(let key): questions[key] != nil
            case .claim(let number): claims[number].map { !$0.isGranted } ?? false
            case .watch(let number): sessions[number] != nil
            case .standing(let key): standings[key] != nil
            case .departure(let path, let number): departures[path]?.number == number
            case .move(let number): presenters[number]?.pendingMove != nil
            case .ping(let session, let message): sessions[session]?.ping == message
            }
        }
    }

    /// Others wait for a claim of the session: from now on its holder is asked now and then whether it lives.
    mutating func watch(_ number: Int, now: MonotonicTime) {
        guard let session = sessions[number], session.liveness != .isTrusted, !session.isWatched else { return }
        session.isWatched = true
        schedule(.watch(number), at: now + limits.pingInterval)
    }

    /// The holder lives.
    package mutating func heard(_ number: Int, now: MonotonicTime) {
        guard let session = sessions[number], session.ping != nil else { return }
        session.ping = nil
        schedule(.watch(number), at: now + limits.pingInterval)
    }

    private func isHoldingUp(_ session: ClaimSession) -> Bool {
        session.claims.contains { number in claims[number].map { $0.isGranted && !$0.blocks.isEmpty } ?? false }
    }

    private mutating func ask(_ number: Int, now: MonotonicTime) {
        guard let session = sessions[number], session.ping == nil else { return }
        guard isHoldingUp(session) else {
            session.isWatched = false
            return
        }
        let message: Int
        if session.liveness == .answers {
            message = tell(session, .ping)
        } else {
            lastMessage += 1
            message = lastMessage
            effects.append(.probe(session: number))
        }
        session.ping = message
        schedule(.ping(session: number, message: message), at: now + limits.ping)
    }

    /// The holder did not answer: those that wait for its claims get them.
    private mutating func breakClaims(of number: Int, now: MonotonicTime) {
        guard let session = sessions[number] else { return }
        session.ping = nil
        session.isWatched = false
        for claim in session.claims.sorted() {
            guard let claim = claims[claim], claim.isGranted, !claim.blocks.isEmpty else { continue }
            if session.liveness == .answers { tell(session, .claimLost, claim: claim.number) }
            effects.append(.lost(claim: claim.number))
            release(claim.number, now: now)
        }
    }
}
