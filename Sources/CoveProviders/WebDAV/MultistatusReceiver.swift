internal import CoveCore

/// Parses a multistatus answer as it comes in, and keeps a few resources.
class MultistatusReceiver: BodyReceiver, @unchecked Sendable {
    /// Only the event loop's thread touches these while a transfer goes on.
    private(set) var resources: [DAVResource] = []
    /// True once what came was no XML, or not all of it: some servers write an error behind a listing that they could not end.
    private(set) var isUnreadable = false
    private var scanner: XMLScanner?
    private let limit: Int
    private var page: PageLimit

    /// A page, which is all of an answer unless `beginPage` is called, may take so long.
    init(_ pageLimit: TimeSpan, limit: Int = 64) {
        page = PageLimit(pageLimit)
        self.limit = limit
    }

    func begin(_ head: HTTPHead) throws(ProviderError) {
        guard head.status == 207 else {
            let kind = head["content-type"].map { " (\($0.prefix(100)))" } ?? ""
            throw .serverUnreachable(
                "\(head.status)\(kind) came where WebDAV answers 207: a network's login page, or not the right address"
            )
        }
        resources = []
        let reader = MultistatusReader { [unowned self] (resource) throws(ProviderError) in try self.take(resource) }
        scanner = XMLScanner(reader)
        beginPage()
    }

    /// Time and bytes count anew.
    func beginPage() { page.begin() }

    func receive(_ bytes: UnsafeRawBufferPointer) throws(ProviderError) {
        try page.take(bytes)
        do throws(ProviderError) { try scanner?.parse(bytes) } catch {
            isUnreadable = scanner?.isBroken ?? false
            throw error
        }
    }

    func finish() throws(ProviderError) {
        do throws(ProviderError) { try scanner?.finish() } catch {
            isUnreadable = true
            throw .serverUnreachable("its answer broke off")
        }
    }

    func take(_ resource: DAVResource) throws(ProviderError) {
        guard resources.count < limit else { throw .failed("the server tells of more than it was asked for", nil) }
        resources.append(resource)
    }

    var isFull: Bool { false }
    func connect(_ resume: @escaping @Sendable () -> Void) {}
}

/// Keeps what the body makes of the resources of a directory, however many there are.
final class PickingReceiver<Picked: Sendable>: MultistatusReceiver, @unchecked Sendable {
    private(set) var picked: [Picked] = []
    private var count = 0
    private let pick: @Sendable (DAVResource) -> Picked?

    init(_ pageLimit: TimeSpan, _ pick: @escaping @Sendable (DAVResource) -> Picked?) {
        self.pick = pick
        super.init(pageLimit)
    }

    override func begin(_ head: HTTPHead) throws(ProviderError) {
        (picked, count) = ([], 0)
        try super.begin(head)
    }

    override func take(_ resource: DAVResource) throws(ProviderError) {
        count += 1
        if count.isMultiple(of: 1000) { beginPage() }
        guard count <= PageLimit.items else { throw .failed("the server's listing does not end", nil) }
        if let one = pick(resource) { picked.append(one) }
    }
}

extension WebDAVProvider {
    /// What the body makes of the items of a directory, by their names.
    func pick<Picked: Sendable>(
        in directory: RemotePath,
        _ request: [UInt8] = MultistatusReader.request,
        _ body: @escaping @Sendable (_ name: [UInt8], DAVResource) -> Picked?
    ) async throws(ProviderError) -> [Picked] {
        let address = address
        let receiver = PickingReceiver(client.pageLimit) { (resource) -> Picked? in
            guard case .inside(let name) = address.place(of: resource.href, in: directory) else { return nil }
            return body(name, resource)
        }
        try await propfind(directory, isDirectory: true, depth: 1, request, to: receiver)
        return receiver.picked
    }
}
