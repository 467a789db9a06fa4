internal import CoveCore

/// Takes an S3 document apart as it comes: the leaves of each row element, and those outside of all rows.
final class S3Document: XMLHandler {
    private static let fieldLimit = 200

    private let rows: [String]
    private let onRow: (_ name: String, _ fields: Fields) throws(ProviderError) -> Void
    private var row: String?
    private var fields = Fields()
    /// Names with and without their namespace, as far as they were met.
    private var locals: [(name: String, local: String)] = []
    private(set) var completed = 0
    /// The root element's name, empty before it.
    private(set) var root = ""
    /// What stands outside of the rows.
    private(set) var values = Fields()

    init(
        rows: [String] = [],
        onRow: @escaping (_ name: String, _ fields: Fields) throws(ProviderError) -> Void = { _, _ in }
    ) {
        self.rows = rows
        self.onRow = onRow
    }

    /// Reads a whole small document.
    static func read(
        _ bytes: [UInt8],
        rows: [String] = [],
        onRow: @escaping (_ name: String, _ fields: Fields) throws(ProviderError) -> Void = { _, _ in }
    ) throws(ProviderError) -> S3Document {
        let document = S3Document(rows: rows, onRow: onRow)
        let scanner = XMLScanner(document)
        do {
            try bytes.withUnsafeBytes { try scanner.parse($0) }
        } catch let error as ProviderError {
            throw error
        } catch {
            throw .failed("\(error)", nil)
        }
        try scanner.finish()
        return document
    }

    /// A leaf outside of the rows, as text.
    subscript(_ name: String) -> String? { values[name].map { String(decoding: $0, as: UTF8.self) } }

    func begin(_ name: String) throws(ProviderError) {
        let name = local(name)
        if root.isEmpty { root = name }
        guard row == nil, rows.contains(name) else { return }
        row = name
        fields = Fields()
    }

    func end(_ name: String, text: [UInt8]) throws(ProviderError) {
        let name = local(name)
        guard let row else {
            guard values.count < Self.fieldLimit else { throw .failed("the server's answer has too many parts", nil) }
            values[name] = text
            return
        }
        if row == name {
            self.row = nil
            completed += 1
            try onRow(name, fields)
        } else {
            guard fields.count < Self.fieldLimit else { throw .failed("the server's answer has too many parts", nil) }
            fields[name] = text
        }
    }

    /// The name without its namespace, which some servers leave out.
    private func local(_ name: String) -> String {
        if let known = locals.first(where: { $0.name == name }) { return known.local }
        let local = name.utf8.lastIndex(of: 0x20).map { String(name[name.index(after: $0)...]) } ?? name
        if locals.count < Self.fieldLimit { locals.append((name, local)) }
        return local
    }
}

extension S3Document {
    /// The leaves of one element, by name; there are few.
    struct Fields {
        private var leaves: [(name: String, value: [UInt8])] = []

        var count: Int { leaves.count }

        /// The last one of a name.
        subscript(_ name: String) -> [UInt8]? {
            get { leaves.first { $0.name == name }?.value }
            set {
                leaves.removeAll { $0.name == name }
                if let newValue { leaves.append((name, newValue)) }
            }
        }

        /// A leaf as text.
        func text(_ name: String) -> String? { self[name].map { String(decoding: $0, as: UTF8.self) } }
    }
}
