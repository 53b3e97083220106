//! `/api/v1/openapi.json`, made of the route table itself: a route that is served is described, and no other.
use crate::http::auth::{Access, CurrentUser};
use crate::http::failure::Problem;
use crate::router::{self, Described};
use axum::Json;
use axum::http::Method;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{Object, Ref, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, Info, OpenApi, OpenApiBuilder, Paths, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{PartialSchema, ToSchema};

/// Schemas by name, in the order in which they were met.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

/// Adds a type and all that it refers to, and answers its name.
pub fn schema_of<T: ToSchema + PartialSchema>(schemas: &mut Schemas) -> String {
    let name = T::name().into_owned();
    schemas.push((name.clone(), T::schema()));
    T::schemas(schemas);
    name
}

fn method(method: &Method) -> Option<HttpMethod> {
    Some(match *method {
        Method::GET => HttpMethod::Get,
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => return None,
    })
}

fn content(name: &str) -> Content {
    Content::new(Some(RefOr::Ref(Ref::from_schema_name(name))))
}

fn operation(route: &Described, schemas: &mut Schemas) -> utoipa::openapi::path::Operation {
    let needs = match route.access {
        Access::Open => "no token".to_owned(),
        Access::Role(role) => format!("role `{}`", role.word()),
    };
    let mut operation =
        OperationBuilder::new().summary(Some(route.summary)).description(Some(format!("Needs {needs}.")));
    for part in route.path.split('/').filter_map(|part| part.strip_prefix('{')) {
        let text = RefOr::T(Schema::Object(Object::with_type(Type::String)));
        let name = part.trim_end_matches('}').trim_start_matches('*');
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path);
        operation = operation.parameter(parameter.required(Required::True).schema(Some(text)));
    }
    if let Some(body) = route.takes {
        let name = body(schemas);
        let body = RequestBodyBuilder::new().content("application/json", content(&name));
        operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
    }
    let mut good = ResponseBuilder::new().description("Done, or under way.");
    if let Some(answer) = route.answers {
        good = good.content("application/json", content(&answer(schemas)));
    }
    let problem = ResponseBuilder::new().description("What went wrong, and what to do.");
    let problem = problem.content("application/problem+json", content("Problem"));
    operation =
        operation.response(route.status.to_string(), good.build()).response("default", problem.build());
    if route.access != Access::Open {
        operation = operation.security(SecurityRequirement::new("token", Vec::<String>::new()));
    }
    operation.build()
}

/// The document.
pub fn document() -> OpenApi {
    let mut schemas = Schemas::new();
    schema_of::<Problem>(&mut schemas);
    let mut paths = Paths::new();
    for route in router::described() {
        let Some(method) = method(&route.method) else { continue };
        let operation = operation(&route, &mut schemas);
        let item = PathItem::new(method, operation);
        match paths.paths.get_mut(&route.path) {
            Some(known) => known.merge_operations(item),
            None => drop(paths.paths.insert(route.path.clone(), item)),
        }
    }
    let mut components = Components::new();
    components.schemas.extend(schemas);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.security_schemes.insert("token".into(), bearer.into());
    let info = Info::new("Millpond", env!("CARGO_PKG_VERSION"));
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components)).build()
}

/// GET /openapi.json
pub async fn get(_: CurrentUser) -> Json<OpenApi> {
    Json(document())
}
