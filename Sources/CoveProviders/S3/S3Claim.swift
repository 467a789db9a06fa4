internal import CoveCore

/// Which keys a device changes alone: an object beside the others says so while it does.
///
/// A device first writes a claim and then lists all claims on the key: of two that do so at least one sees the other's and
/// goes back, so that never both go on. A claim that is ten minutes old is nobody's any more, and one that is needed for
/// longer is written again. One of this device that nothing here holds was left by a broken line or a crash, and goes first.
/// A copy whose answer got lost may go on at the server: the claims under which it was asked for stay for as long as that.
struct S3Claim: Sendable {
    /// When it was last written, by a clock that goes on while the machine sleeps.
    var written: MonotonicTime?
    /// An answer to writing it got lost: it may come to be when it was taken back already.
    var mayLand = false

    /// What changes a key is asked for under claims that are younger, half as old as those that are nobody's.
    static let youth = TimeSpan.seconds(300)
}

extension S3Provider {
    /// Runs a copy, or the completion of parts, while no other device that uses Cove changes the keys.
    ///
    /// Servers look at the conditions of these a moment before they write: what a conditional PUT or DELETE did in between
    /// is undone. Whoever works at one task, which has a name of hexadecimal digits, shares its claims.
    func exclusively<R: Sendable>(
        _ keys: [[UInt8]],
        for task: String? = nil,
        _ body: () async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        if keys.isEmpty { return try await body() }
        var claims: [[UInt8]] = []
        let result: Result<R, ProviderError>
        do throws(ProviderError) {
            // In one order everywhere, lest two wait for each other.
            for key in keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
                claims.append(try await claim(key, for: task))
            }
            let renewal = Task { [weak self, claims] in
                while (try? await Task.sleep(for: .seconds(120))) != nil {
                    for claim in claims { await self?.renew(claim) }
                }
            }
            do throws(ProviderError) { result = .success(try await body()) } catch { result = .failure(error) }
            renewal.cancel()
            await renewal.value
        } catch {
            result = .failure(error)
        }
        for claim in claims {
            let key = keys.first { claim.starts(with: claimFolder + Array(Self.claimName($0).utf8)) }
            if let doubt = key.flatMap({ takeDoubt($0) }) { keep([claim], for: doubt) } else { await takeBack(claim) }
        }
        return try result.get()
    }

    /// Asks for what changes a claimed key, and looks before each attempt whether the claim is still ours: the machine may
    /// have slept since it was made.
    ///
    /// What lingers, a copy or the completion of parts, may go on at the server when its answer is lost.
    func askClaimed(
        _ call: S3Call,
        of size: Int64,
        lingers: Bool = true
    ) async throws(ProviderError) -> Result<HTTPResponse, S3Failure> {
        let key = call.key ?? []
        var call = call
        if lingers { call.patience = 10 }
        return try await askAgain(call) { () throws(ProviderError) in
            if !isClaimYoung(key) { throw .busy }
        } lost: {
            if lingers { doubt(key, size) }
        }
    }

    /// Asks up to three times, as the client does by itself, but is told of each attempt and of each answer that is lost.
    private func askAgain(
        _ call: S3Call,
        before: () throws(ProviderError) -> Void,
        lost: () -> Void
    ) async throws(ProviderError) -> Result<HTTPResponse, S3Failure> {
        var call = call
        call.isRepeatable = false
        var attempts = 0
        while true {
            try before()
            attempts += 1
            let start = clock()
            do throws(ProviderError) {
                let answer = try await client.ask(call)
                guard case .failure(let failure) = answer else { return answer }
                // Something in front of the server has not waited for it.
                if failure.isGateway { lost() }
                guard failure.passes, attempts < 3 else { return answer }
            } catch {
                lost()
                // Who was silent for long is not asked again.
                guard attempts < 3, error != .cancelled, error.isUnanswered, clock() - start < .seconds(20) else {
                    throw error
                }
            }
            try await rest(attempts)
        }
    }

    /// Keeps claims while what was asked for under them may go on at the server.
    private func keep(_ claims: [[UInt8]], for time: TimeSpan) {
        Task { [weak self] in
            try? await Task.sleep(for: time)
            for claim in claims { await self?.takeBack(claim) }
        }
    }

    /// Runs what one conditional PUT or DELETE changes; on a server that knows no conditions, exclusively.
    func conditionally<R: Sendable>(
        _ key: [UInt8],
        _ body: () async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        try await exclusively(features.putsConditionally ? [] : [key], body)
    }

    /// Waits until nobody claims a key: what was put or deleted before that, and is so yet, stays so.
    ///
    /// Whoever copies claims the key first and looks then. Who claims it later than this began therefore sees what was put,
    /// and who did before is through; only then is looked at what came of it. Under a claim, as on a server without
    /// conditions, there is nobody to wait for.
    func outlastCopies(onto key: [UInt8]) async throws(ProviderError) {
        guard features.putsConditionally else { return }
        let name = Self.claimName(key)
        for attempt in 0..<60 {
            let found = try await claimLooks.look(at: claimFolder, for: [name]) {
                [weak self] names throws(ProviderError) in
                guard let self else { throw .cancelled }
                return try await claimed(of: names)
            }
            guard found.contains(name) else { return }
            try await rest(attempt)
        }
        throw .busy
    }

    /// How long a server may be at a copy of so many bytes when nobody waits for it any more.
    static func linger(_ size: Int64) -> TimeSpan { min(.seconds(600), .seconds(60) + .seconds(size / (16 << 20))) }

    private var claimFolder: [UInt8] { address.prefix + Array(".cove/claims/".utf8) }

    /// What the names of all claims on a key begin with.
    private static func claimName(_ key: [UInt8]) -> String {
        String(Digest.hash(key, .sha256).hexadecimal.prefix(32))
    }

    /// Which of the keys somebody claims.
    private func claimed(of names: Set<String>) async throws(ProviderError) -> Set<String> {
        let folder = claimFolder
        var found: Set<String> = []
        try await client.eachPage(of: folder) { listing throws(ProviderError) in
            for claim in listing.objects where isLive(claim) {
                let name = String(decoding: claim.key.dropFirst(folder.count).prefix(32), as: UTF8.self)
                if names.contains(name) { found.insert(name) }
            }
        }
        return found
    }

    private func isLive(_ claim: S3Object) -> Bool { client.now - claim.modified < .seconds(600) && !isLeft(claim.key) }

    /// Keeps a claim young; one that was not for too long may be another's by now.
    private func renew(_ claim: [UInt8]) async {
        if let held = held(claim), isYoung(held) { try? await write(claim) }
    }

    private func write(_ claim: [UInt8]) async throws(ProviderError) {
        let start = clock()
        var isSure = held(claim)?.mayLand != true
        note(claim, mayLand: true)
        let answer = try await askAgain(S3Call("PUT", claim)) {
        } lost: {
            isSure = false
        }
        if case .failure(let failure) = answer { throw failure.error }
        note(claim, written: start, mayLand: !isSure)
    }

    /// Ends a claim, also for a task that was called off: nobody else could go on.
    ///
    /// Where that fails it is tried again.
    private func takeBack(_ claim: [UInt8]) async {
        let client = client
        @Sendable func isGone() async -> Bool {
            switch try? await client.ask(S3Call("DELETE", claim)) {
            case .success: true
            case .failure(let failure): failure.status == 404
            case nil: false
            }
        }
        let isOver = await Task { await isGone() }.value
        let mayLand = drop(claim)
        if mayLand || !features.putsConditionally { sweepLater(after: .seconds(2)) }
        if mayLand { sweepLater(after: .seconds(30)) }
        if isOver { return }
        Task { [weak self] in
            for attempt in 0..<12 {
                try? await Task.sleep(for: .milliseconds(500).doubled(min(attempt, 6)))
                if self == nil { return }
                if await isGone() { return }
            }
        }
    }

    /// Takes back what has come since, or what a server has kept though it said otherwise, as some do that remove the folder
    /// below a new claim.
    private func sweepLater(after time: TimeSpan) {
        guard beginSweep(time) else { return }
        Task { [weak self] in
            try? await Task.sleep(for: time)
            self?.endSweep(time)
            try? await self?.dropLeftClaims()
        }
    }

    /// Keeps for a while what this device left when it died, for a copy may go on; on servers where little but copies is
    /// claimed.
    func keepLeftClaims() async throws(ProviderError) {
        guard features.putsConditionally else { return try await dropLeftClaims() }
        var left: [[UInt8]] = []
        try await client.eachPage(of: claimFolder) { listing throws(ProviderError) in
            for claim in listing.objects where isLeft(claim.key) { left.append(claim.key) }
        }
        for claim in left { hold(claim) }
        if !left.isEmpty { keep(left, for: features.cleansLate ? address.lateCleaning : Self.linger(0)) }
    }

    /// Takes back what this device left when a line broke, or when it died.
    func dropLeftClaims() async throws(ProviderError) {
        try await client.eachPage(of: claimFolder) { listing throws(ProviderError) in
            for claim in listing.objects where isLeft(claim.key) {
                _ = try await client.ask(S3Call("DELETE", claim.key))
            }
        }
    }

    /// A deletion may arrive late, also after another attempt was answered: the claim under which it was asked for stays, on the
    /// key or on the name of the folder that it stands for.
    func doubtDeletion(of key: [UInt8]) {
        for claimed in [key, S3Names.directory(of: key).dropLast()] where isClaimed(Array(claimed)) {
            doubt(Array(claimed), 0)
        }
    }

    private func isClaimed(_ key: [UInt8]) -> Bool {
        let name = claimFolder + Array(Self.claimName(key).utf8)
        return !claims { $0.starts(with: name) }.isEmpty
    }

    /// False when what was claimed may be another's by now; true too for keys that nobody claims.
    func isClaimYoung(_ key: [UInt8]) -> Bool {
        let name = claimFolder + Array(Self.claimName(key).utf8)
        let own = claims { $0.starts(with: name) }
        return own.isEmpty || own.contains { isYoung($0) }
    }

    private func isYoung(_ claim: S3Claim) -> Bool {
        claim.written.map { clock() - $0 < S3Claim.youth } ?? false
    }

    /// True for a claim of this device that nothing here holds.
    private func isLeft(_ claim: [UInt8]) -> Bool {
        let name = claim.dropFirst(claimFolder.count)
        guard let end = name.firstIndex(where: { $0 == 0x2F || $0 == 0x2D }) else { return false }
        return name[(end + 1)...].starts(with: Array("\(owner)-".utf8)) && held(claim) == nil
    }

    private func claim(_ key: [UInt8], for task: String?) async throws(ProviderError) -> [UInt8] {
        // Where conditions are unknown an empty folder may vanish below a new claim, which others' then must not share.
        let place = claimFolder + Array("\(Self.claimName(key))\(features.putsConditionally ? "-" : "/")".utf8)
        let shared = task.map { "\($0)-" } ?? ""
        for attempt in 0..<60 {
            let own = place + Array("\(owner)-\(shared)\(DocumentID.random())".utf8)
            hold(own)
            do throws(ProviderError) {
                try await write(own)
                let listed = try await client.list(place, delimiter: false).objects
                let others = listed.filter { other in
                    let rest = other.key.dropFirst(place.count + owner.utf8.count + 1)
                    return other.key != own && (shared.isEmpty || !rest.starts(with: Array(shared.utf8)))
                }
                let live = others.filter(isLive)
                for old in others where !live.contains(old) { _ = try? await client.ask(S3Call("DELETE", old.key)) }
                // One that a listing does not show would hold nobody back: the folder may have vanished below it.
                if live.isEmpty, listed.contains(where: { $0.key == own }) { return own }
            } catch {
                await takeBack(own)
                throw error
            }
            await takeBack(own)
            try await rest(attempt)
        }
        throw .busy
    }

    /// Waits for somebody's claim, longer each time.
    private func rest(_ attempt: Int) async throws(ProviderError) {
        try await rest(.random(in: .milliseconds(10)...TimeSpan.milliseconds(50).doubled(min(attempt, 4))))
    }

    /// Waits; throws when the task is called off.
    func rest(_ time: TimeSpan) async throws(ProviderError) {
        do { try await Task.sleep(for: time) } catch { throw .cancelled }
    }
}
