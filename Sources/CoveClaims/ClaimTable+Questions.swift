package import CoveCore

/// Names what a presenter was asked, all of it, for a call that could not wait for the answer.
struct StandingKey: Hashable {
    var presenter: Int
    var steps: [Claim.Step]
}

/// What a presenter was asked for such a call: when the call comes again, it goes on from there.
struct Standing {
    /// The claim that it was asked for, as the presenter knows it.
    var claim: Int
    /// What is left to be asked, the next last.
    var script: [Claim.Step]
    /// How often it let the caller in.
    var relinquished: Int
    var replyBy: MonotonicTime
    var expires: MonotonicTime
    /// However often calls come, it is over then.
    let end: MonotonicTime
}

/// Questions and their answers.
///
/// A presenter has one deadline for all that it is asked for one claim. One that lets it pass is silent, and not waited for
/// again until it answers anything, which it is asked for now and then.
extension ClaimTable {
    /// How long the answers of presenters count for a call that comes again, from the last that their session was asked for
    /// such calls: a person, or a program that has many files to remove, comes again late.
    private static let standingTime = TimeSpan.seconds(30)
    /// No answer counts for longer.
    private static let longestStanding = TimeSpan.seconds(600)
    /// How long the other presenters of a session are waited for when one has let its time pass.
    private static let slowTime = TimeSpan.seconds(2)

    mutating func askNext(_ number: Int, for claim: Claim, now: MonotonicTime) {
        guard let presenter = presenters[number], let step = claim.script[number]?.last else { return }
        var replyBy = claim.replyBy[number] ?? now
        if sessions[presenter.session]?.isSlow == true {
            replyBy = min(replyBy, now + Self.slowTime)
            claim.replyBy[number] = replyBy
        }
        guard !presenter.isSilent, replyBy > now else { return passOver(presenter, claim, now: now) }
        ask(presenter, step, Question(claim: claim.number, presenter: number), by: replyBy, now: now)
    }

    private mutating func ask(
        _ presenter: Presenter,
        _ step: Claim.Step,
        _ question: Question,
        by time: MonotonicTime,
        now: MonotonicTime
    ) {
        let named = claims[question.claim]?.askedAs[presenter.number] ?? question.claim
        guard let message = tell(presenter, step.kind, step.path, claim: named) else { return }
        presenter.questions.insert(message)
        if step.kind == .saveChanges { presenter.saveAskedAfter = lastNumber }
        let key = QuestionKey(session: presenter.session, message: message)
        questions[key] = question
        schedule(.question(key), at: time)
        overtake(for: presenter, now: now)
    }

    /// What a presenter of this process waits for when it is asked goes ahead of whoever asks: others ask anew.
    private mutating func overtake(for presenter: Presenter, now: MonotonicTime) {
        guard let session = sessions[presenter.session], session.liveness == .isTrusted else { return }
        let own = session.waiting.compactMap { claims[$0] }.filter { $0.request.presenter == presenter.number }
        if !own.isEmpty { findWaitsAgain(of: claimsBehind(own), now: now) }
    }

    /// Goes on without a presenter that is silent: it counts as having agreed, but what it has not saved nobody can read.
    private mutating func passOver(_ presenter: Presenter, _ claim: Claim, now: MonotonicTime) {
        let steps = claim.script.removeValue(forKey: presenter.number) ?? []
        if presenter.isSilent { probe(presenter, for: claim, now: now) }
        for step in steps.reversed() {
            switch step.kind {
            case .saveChanges where claim.request.manner != .plain:
                return fail(claim, Self.unsaved, now: now)
            case .accommodateEviction: return fail(claim, ClaimFailure(.busy), now: now)
            case .accommodateDeletion, .accommodateSubitemDeletion:
                tell(presenter, step.kind, step.path, claim: claim.number)
            default: continue
            }
        }
    }

    /// Asks a silent presenter for an answer, whichever: it may have missed one and be well.
    private mutating func probe(_ presenter: Presenter, for claim: Claim, now: MonotonicTime) {
        guard now >= presenter.probes.next, let path = presenter.node?.path else { return }
        presenter.probes.next = now + limits.presenter.doubled(min(presenter.probes.count, 7))
        presenter.probes.count += 1
        var message = tell(presenter, .saveChanges, path, claim: claim.number)
        if message == nil {
            message = tell(presenter, .relinquishToReader, path, claim: claim.number)
            if message != nil { tell(presenter, .reacquire, path, claim: claim.number) }
        }
        if let message { late[QuestionKey(session: presenter.session, message: message)] = presenter.number }
    }

    /// It has answered: it is waited for as any other.
    private func hear(_ presenter: Presenter) {
        presenter.isSilent = false
        presenter.probes = (0, .distantPast)
    }

    private static let unsaved = ClaimFailure(.timedOut, "a program that has it open did not save it in time")

    /// A presenter, or a session that was asked whether it lives, has answered.
    package mutating func reply(session: Int, message: Int, failure: ClaimFailure?, now: MonotonicTime) {
        sessions[session]?.isSlow = false
        if sessions[session]?.ping == message { return heard(session, now: now) }
        let key = QuestionKey(session: session, message: message)
        if let number = late.removeValue(forKey: key) {
            if let presenter = presenters[number] { hear(presenter) }
            return
        }
        guard let question = questions[key], let presenter = presenters[question.presenter] else { return }
        hear(presenter)
        take(question, key, presenter, failure, now: now)
    }

    private mutating func take(
        _ question: Question,
        _ key: QuestionKey,
        _ presenter: Presenter,
        _ failure: ClaimFailure?,
        now: MonotonicTime
    ) {
        questions[key] = nil
        presenter.questions.remove(key.message)
        if let standing = question.standing { return take(standing, presenter, now: now) }
        guard let claim = claims[question.claim] else { return }
        // A program that never asked presenters is not told their errors.
        if let failure, claim.request.manner != .plain {
            return fail(claim, failure, now: now)
        }
        if let step = claim.script[presenter.number]?.popLast(), step.isRelinquishing {
            claim.relinquished.append(presenter.number)
        }
        if claim.script[presenter.number]?.isEmpty == true { claim.script[presenter.number] = nil }
        if claim.script[presenter.number] != nil { askNext(presenter.number, for: claim, now: now) }
        if claim.script[presenter.number] == nil, claim.state == .presenters { advance(claim, now: now) }
    }

    /// A presenter has taken too long.
    mutating func expireQuestion(_ key: QuestionKey, now: MonotonicTime) {
        guard let question = questions[key], let presenter = presenters[question.presenter] else { return }
        presenter.isSilent = true
        // One that hangs in a process of its own says more of its others than one of many in this.
        if let session = sessions[presenter.session], session.liveness != .isTrusted { session.isSlow = true }
        late[key] = presenter.number
        let kind = claims[question.claim]?.script[question.presenter]?.last?.kind
        let failure: ClaimFailure? =
            switch kind {
            case .saveChanges: Self.unsaved
            case .accommodateEviction: ClaimFailure(.busy)
            default: nil
            }
        take(question, key, presenter, failure, now: now)
    }

    /// The claim needs no answer any more.
    mutating func dropQuestion(of claim: Int, to number: Int) {
        guard let presenter = presenters[number] else { return }
        for message in presenter.questions {
            let key = QuestionKey(session: presenter.session, message: message)
            guard let question = questions[key], question.claim == claim, question.standing == nil else { continue }
            questions[key] = nil
            presenter.questions.remove(message)
        }
    }

    // MARK: Calls that come again

    /// A call can't wait for the answers: what was asked stands for when it comes again.
    mutating func stand(_ claim: Claim, now: MonotonicTime) {
        for (number, steps) in claim.asked {
            let key = StandingKey(presenter: number, steps: steps)
            guard let presenter = presenters[number], !presenter.isSilent, standings[key] == nil else { continue }
            let left = claim.script.removeValue(forKey: number) ?? []
            standings[key] = Standing(
                claim: claim.askedAs[number] ?? claim.number,
                script: left,
                relinquished: claim.relinquished.count { $0 == number },
                replyBy: claim.replyBy[number] ?? now,
                expires: now + Self.standingTime,
                end: now + Self.longestStanding
            )
            sessions[presenter.session]?.lastStanding = now
            claim.relinquished.removeAll { $0 == number }
            for message in presenter.questions {
                let question = QuestionKey(session: presenter.session, message: message)
                if questions[question]?.claim == claim.number { questions[question]?.standing = key }
            }
            schedule(.standing(key), at: now + Self.standingTime)
        }
    }

    /// True where a presenter was asked before for a call that comes again now.
    mutating func goOn(with key: StandingKey, for claim: Claim) -> Bool {
        guard let standing = standings.removeValue(forKey: key), let presenter = presenters[key.presenter] else {
            return false
        }
        for _ in 0..<standing.relinquished { claim.relinquished.append(key.presenter) }
        claim.askedAs[key.presenter] = standing.claim
        claim.replyBy[key.presenter] = standing.replyBy
        if !standing.script.isEmpty { claim.script[key.presenter] = standing.script }
        for message in presenter.questions {
            let question = QuestionKey(session: presenter.session, message: message)
            guard questions[question]?.standing == key else { continue }
            questions[question]?.standing = nil
            questions[question]?.claim = claim.number
        }
        return true
    }

    /// An answer to what stands.
    private mutating func take(_ key: StandingKey, _ presenter: Presenter, now: MonotonicTime) {
        guard var standing = standings[key] else { return }
        if standing.script.popLast()?.isRelinquishing == true { standing.relinquished += 1 }
        standing.expires = now + Self.standingTime
        if presenter.isSilent { standing.script = [] }
        standings[key] = standing
        schedule(.standing(key), at: standing.expires)
        guard let step = standing.script.last else { return }
        let question = Question(claim: standing.claim, presenter: key.presenter, standing: key)
        ask(presenter, step, question, by: standing.replyBy, now: now)
    }

    /// The call did not come again.
    mutating func expireStanding(_ key: StandingKey, now: MonotonicTime) {
        guard let standing = standings[key], let presenter = presenters[key.presenter] else { return }
        let isAsked = presenter.questions.contains {
            questions[QuestionKey(session: presenter.session, message: $0)]?.standing == key
        }
        // As long as it may still answer, the call may still come again for that.
        var end = isAsked ? max(standing.expires, standing.replyBy + Self.standingTime) : standing.expires
        // As long as such calls go on coming to the program, this one may come again in its turn.
        if let last = sessions[presenter.session]?.lastStanding {
            end = max(end, min(last + Self.standingTime, standing.end))
        }
        guard end <= now else { return schedule(.standing(key), at: end) }
        standings[key] = nil
        for message in presenter.questions {
            let question = QuestionKey(session: presenter.session, message: message)
            guard questions[question]?.standing == key else { continue }
            questions[question] = nil
            presenter.questions.remove(message)
        }
        guard let path = presenter.node?.path else { return }
        for _ in 0..<standing.relinquished { tell(presenter, .reacquire, path, claim: standing.claim) }
    }
}

extension Claim.Step {
    var isRelinquishing: Bool { kind == .relinquishToReader || kind == .relinquishToWriter }
}
